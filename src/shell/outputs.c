/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options and operands that name a file to be written. Whoever may not say `> /etc/passwd` may not say `sort -o
 * /etc/passwd` either: the place decides, as it does for a redirection. What is written into the workspace is nobody's
 * concern here.
 */
#include "shell/call.h"

#include <stdio.h>

static const struct sh_option outputs[] = {
        { WORDS("sort", "gsort", "shuf", "tree", "iconv", "pandoc", "bison", "flex", "xmllint", "patch", "gpg"), "o",
          WORDS("--output"), 0 },
        { WORDS("git"), "o", WORDS("--output", "--output-directory"), OPTION_ALONE },
        { WORDS("curl"), "oDc",
          WORDS("--output", "--output-dir", "--dump-header", "--cookie-jar", "--trace", "--trace-ascii", "--stderr",
                "--etag-save", "--libcurl"),
          0 },
        { WORDS("wget"), "OPoa",
          WORDS("--output-document", "--directory-prefix", "--output-file", "--append-output", "--save-cookies"), 0 },
        { WORDS("gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "as", "rustc", "go", "nasm", "tcc", "7z",
                "esbuild", "objcopy", "gawk"),
          "o", WORDS("--outfile"), OPTION_ALONE },
        { WORDS("strace", "ltrace", "time", "perf"), "o", WORDS("--output"), OPTION_LEADING },
        { WORDS("parallel"), NULL, WORDS("--joblog", "--results"), OPTION_LEADING },
        { WORDS("valgrind"), NULL, WORDS("--log-file", "--xml-file", "--callgrind-out-file"), OPTION_LEADING },
        { WORDS("openssl"), NULL, WORDS("-out", "-keyout", "-sigfile", "-writerand"), 0 },
        { WORDS("nmap"), NULL, WORDS("-oN", "-oX", "-oG", "-oS", "-oA"), 0 },
        { WORDS("tcpdump", "tshark", "dumpcap"), "w", NULL, 0 },
        { WORDS("find", "gfind"), NULL, WORDS("-fprint", "-fprint0", "-fprintf", "-fls"), 0 },
        { WORDS("unzip"), "d", NULL, OPTION_ALONE },
        { WORDS("tar", "gtar", "bsdtar"), "C", WORDS("--directory", "--index-file"), OPTION_ALONE },
        { WORDS("csplit"), "f", WORDS("--prefix"), OPTION_ALONE },
        { WORDS("pip", "pip3"), NULL, WORDS("--log"), 0 },
};

/* Programs whose operands are written: all from the given one on, up to the last. */
static const struct {
        const char *const *programs;
        size_t from;
} written[] = {
        { WORDS("uniq", "xxd", "split"), 1 },
        { WORDS("script"), 0 },
};

static bool is_homes(struct str path) {
        return path.n && (path.p[0] == '~' || str_starts(path, STR("/home")) || str_starts(path, STR("/root")) ||
                          str_starts(path, STR("/Users")));
}

/* A whole directory: what counts is the place of a file in it. */
static enum sh_place place_below(struct sh_arg directory) {
        char text[512];

        if (is_homes(directory.text))
                return PLACE_PROTECTED;

        int n = snprintf(text, sizeof text, "%.*s/x", STR_FMT(directory.text));
        if (n < 0 || (size_t)n >= sizeof text || str_is(directory.text, "/"))
                return PLACE_SYSTEM;

        directory.text = str_n(text, (size_t)n);
        directory.pattern = false;

        return place_of(directory);
}

void judge_output(struct judge *judge, struct sh_arg target) {
        enum sh_place place = target.text.n ? place_of(target) : PLACE_OTHER;
        if (place == PLACE_ROOT)
                place = place_below(target);
        if (place == PLACE_SYSTEM || place == PLACE_DISK)
                judge_find(judge, FINDING_OUTPUT_SYSTEM);
        else if (place == PLACE_SHARED || place == PLACE_PROTECTED)
                judge_find(judge, FINDING_OUTPUT_PLACE);
}

/* tar cf X: the archive is written; tar xf X: it is read. */
static void archive_written(struct judge *judge, const struct sh_call *call) {
        const struct sh_option file = { .letters = "f", .words = WORDS("--file") };

        if (call->n < 3)
                return;

        struct str first = call->p[1].text;
        bool old_style = first.n && first.p[0] != '-';
        bool writes = (old_style && (str_find(first, 'c') >= 0 || str_find(first, 'r') >= 0)) ||
                      call_has_any(call, WORDS("-c", "-r", "-u", "--create", "--append", "--update"));
        struct sh_arg value;

        if (!writes)
                return;
        if (old_style && str_find(first, 'f') >= 0)
                judge_output(judge, call->p[2]);

        for (size_t i = 1; i < call->n; i++)
                if (call_option_value(call, i, &file, &value))
                        judge_output(judge, value);
}

void judge_outputs(struct judge *judge, const struct sh_call *call) {
        struct sh_arg value;

        for (size_t k = 0; k < sizeof outputs / sizeof outputs[0]; k++) {
                if (!word_in(call->name, outputs[k].programs))
                        continue;
                size_t end = call_options_end(call, &outputs[k]);
                for (size_t i = 1; i < end; i++)
                        if (call_option_value(call, i, &outputs[k], &value))
                                judge_output(judge, value);
        }

        for (size_t k = 0; k < sizeof written / sizeof written[0]; k++) {
                const struct sh_arg *arg;

                if (word_in(call->name, written[k].programs))
                        for (size_t i = written[k].from; (arg = call_operand(call, i)); i++)
                                judge_output(judge, *arg);
        }

        if (str_is(call->name, "tar") || str_is(call->name, "gtar") || str_is(call->name, "bsdtar"))
                archive_written(judge, call);
}
