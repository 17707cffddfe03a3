/* SPDX-License-Identifier: Apache-2.0 */
/* Managers of tools: where they put things, and how they are asked for one. */
#include "guest/recipe/recipe_internal.h"

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
          /* A store that the guest may not write to is another's. In one of its own everything is built: what caches
           * have was built for /nix/store. No build has a user or namespaces of its own in here. */
          .script = "command -v nix > /dev/null || { echo 'nix is not on this host' >&2; exit 127; }\n"
                    "tool=$1\n"
                    "set -- --extra-experimental-features 'nix-command flakes' --option sandbox false"
                    " --option build-users-group ''\n"
                    "if ! [ -w /nix/store ]; then\n"
                    "    export NIX_STORE_DIR=\"$HOME/.nix/store\" NIX_STATE_DIR=\"$HOME/.nix/var\""
                    " NIX_LOG_DIR=\"$HOME/.nix/log\"\n"
                    "    set -- \"$@\" --option substitute false\n"
                    "fi\n"
                    "case $tool in\n"
                    "*'#'* | */*) ;;\n"
                    "*) tool=nixpkgs#$tool ;;\n"
                    "esac\n"
                    "exec nix \"$@\" profile install \"$tool\"\n",
          .secluded = ".nix/store" },
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

const char *recipe_manager_secluded(const char *manager) {
        const struct recipe_manager *found = recipe_manager_find(str_of(manager));

        return found ? found->secluded : NULL;
}
