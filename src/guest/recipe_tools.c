/* SPDX-License-Identifier: Apache-2.0 */
/* Managers of tools: where they put things, and how they are asked for one. */
#include "guest/recipe_internal.h"

static const struct recipe_manager managers[] = {
        { .name = "mise",
          .fronts = { "~/.local/share/mise/shims", "~/.local/bin" },
          .script = "PATH=\"$HOME/.local/share/mise/shims:$HOME/.local/bin:$PATH\"\n"
                    "if ! command -v mise > /dev/null; then\n"
                    "    command -v npm > /dev/null || {\n"
                    "        echo 'mise is not here, nor is npm, which would bring it: install one of them on this"
                    " host' >&2\n"
                    "        exit 127\n"
                    "    }\n"
                    "    npm install --global --prefix \"$HOME/.local\" --no-fund --no-audit --loglevel=error mise ||"
                    " exit\n"
                    "fi\n"
                    "exec mise use --global --yes \"$1\"\n" },
        { .name = "pkgx",
          .fronts = { "~/.local/bin" },
          .script = "command -v pkgx > /dev/null || { echo 'pkgx is not on this host' >&2; exit 127; }\n"
                    "exec pkgx pkgm install \"$1\"\n" },
        { .name = "nix",
          .fronts = { "~/.nix-profile/bin" },
          .script = "command -v nix > /dev/null || { echo 'nix is not on this host' >&2; exit 127; }\n"
                    "exec nix --extra-experimental-features 'nix-command flakes' profile install \"nixpkgs#$1\"\n" },
};

const struct recipe_manager *recipe_manager_find(struct str name) {
        for (size_t i = 0; i < sizeof managers / sizeof *managers; i++)
                if (str_is(name, managers[i].name))
                        return &managers[i];
        return NULL;
}

const char *recipe_manager_script(const char *manager) {
        const struct recipe_manager *found = recipe_manager_find(str_of(manager));

        return found ? found->script : NULL;
}
