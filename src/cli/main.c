/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "cli/frame.h"

int main(int argc, char **argv) {
        alloc_settle();
        return frame_main(argc, argv);
}
