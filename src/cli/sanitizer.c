/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only in a build with AddressSanitizer: its settings for processes whose environment somebody else made, such as the
 * supervisor of a bridged command. ASAN_OPTIONS changes them. The look for leaks at the end of a process takes seconds
 * on arm64, so that it is made where somebody asks for it.
 */
const char *__asan_default_options(void);

__attribute__((visibility("default"))) const char *__asan_default_options(void) {
        return "detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1";
}
