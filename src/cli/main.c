/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame.h"

int main(int argc, char **argv) {
        return frame_main(argc, argv);
}
