/* SPDX-License-Identifier: Apache-2.0 */
/* Which arguments name a file with secrets. Text only. */
#include "shell/place_path.h"

static const char *const secret_files[] = { /* the end of a path, whole components */
                                            ".ssh",
                                            ".ssh/id_*",
                                            ".ssh/*_key",
                                            ".ssh/identity*",
                                            ".aws", /* all of it, as tar and grep -r take it */
                                            ".gnupg",
                                            ".kube",
                                            ".password-store",
                                            ".config/gcloud",
                                            ".config/gh",
                                            ".aws/credentials",
                                            ".aws/config",
                                            ".azure/*",
                                            ".config/gcloud/*",
                                            ".boto",
                                            ".s3cfg",
                                            ".config/rclone/*",
                                            ".kube/config",
                                            ".docker/config.json",
                                            ".netrc",
                                            ".git-credentials",
                                            ".config/git/credentials",
                                            ".config/gh/*",
                                            ".config/hub",
                                            ".npmrc",
                                            ".yarnrc.yml",
                                            ".pypirc",
                                            ".cargo/credentials*",
                                            ".gem/credentials",
                                            ".vault-token",
                                            ".config/op/*",
                                            ".password-store/*",
                                            ".pgpass",
                                            ".my.cnf",
                                            ".bash_history",
                                            ".zsh_history",
                                            ".python_history",
                                            ".psql_history",
                                            ".gnupg/*",
                                            ".env",
                                            ".env.*",
                                            ".htpasswd",
                                            ".terraform.d/credentials*",
                                            ".m2/settings-security.xml",
                                            ".config/containers/auth.json",
                                            ".config/glab-cli/*",
                                            ".config/Bitwarden CLI/*",
                                            ".local/share/keyrings/*",
                                            ".local/state/bailey/*",
                                            ".local/share/bailey/*",
                                            ".docker",
                                            ".config/containers",
                                            ".cargo/credentials",
                                            ".cargo/credentials.toml",
                                            ".terraform.d/credentials.tfrc.json",
                                            ".mozilla",
                                            ".config/google-chrome",
                                            ".config/chromium",
                                            ".config/BraveSoftware",
                                            ".config/microsoft-edge",
                                            ".config/vivaldi",
                                            ".config/opera",
                                            ".thunderbird",
                                            "snap/firefox",
                                            "snap/chromium",
                                            ".var/app",
                                            ".claude/.credentials.json",
                                            ".codex/auth.json",
                                            ".gemini/oauth_creds.json",
                                            ".gemini/google_accounts.json",
                                            ".gemini/gemini-credentials.json",
                                            ".gemini/mcp-oauth-tokens.json",
                                            ".gemini/mcp-oauth-tokens-v2.json",
                                            ".gemini/a2a-oauth-tokens.json",
                                            ".gemini/.env",
                                            ".codex/.env",
                                            ".qwen/oauth_creds.json",
                                            ".qwen/mcp-oauth-tokens.json",
                                            ".qwen/mcp-oauth-tokens-v2.json",
                                            ".qwen/.env",
                                            ".local/share/opencode/auth.json",
                                            ".local/share/opencode/mcp-auth.json",
                                            ".copilot/config.json",
                                            ".config/github-copilot",
                                            ".pi/agent/auth.json",
                                            ".continue/auth.json",
                                            ".continue/.env",
                                            ".local/share/amp/secrets.json",
                                            ".config/goose/secrets.yaml",
                                            ".local/share/crush/crush.json",
                                            ".factory/auth.json",
                                            ".factory/auth.encrypted",
                                            ".augment/session.json",
                                            ".cursor/auth.json",
                                            ".config/cursor/auth.json",
                                            ".kiro/auth.json",
                                            ".aws/sso",
                                            ".aider/oauth-keys.env",
                                            ".config/sops",
                                            ".config/age",
                                            ".cache/huggingface/token",
                                            ".cache/huggingface/stored_tokens",
                                            ".huggingface/token",
                                            ".m2/settings.xml",
                                            ".gradle/gradle.properties",
                                            ".fly",
                                            ".oci",
                                            ".supabase",
                                            ".kaggle",
                                            ".config/doctl",
                                            ".config/stripe",
                                            ".config/.wrangler",
                                            ".wrangler",
                                            ".config/heroku",
                                            ".config/netlify",
                                            ".local/share/com.vercel.cli",
                                            ".config/hcloud",
                                            ".pulumi/credentials.json",
                                            ".terraformrc",
                                            ".databrickscfg",
                                            ".snowflake",
                                            ".mylogin.cnf",
                                            ".local/share/kwalletd",
                                            ".Xauthority",
                                            ".ICEauthority",
                                            ".composer/auth.json",
                                            ".config/composer/auth.json",
                                            ".nuget/NuGet/NuGet.Config",
                                            ".local/share/fish/fish_history",
                                            ".local/share/nushell/history.txt",
                                            ".node_repl_history",
                                            ".mysql_history",
                                            ".sqlite_history",
                                            ".rediscli_history",
                                            ".dbshell",
                                            ".lesshst",
                                            ".viminfo",
                                            NULL
};
static const char *const secret_system[] = { "/etc/shadow*",
                                             "/etc/gshadow*",
                                             "/etc/sudoers*",
                                             "/etc/ssl/private/*",
                                             "/etc/ssh/ssh_host_*_key",
                                             "/run/secrets/*",
                                             "/proc/*/environ",
                                             "/var/lib/docker/*",
                                             "/etc/security/opasswd*",
                                             "/etc/pki/tls/private*",
                                             "/etc/pki/private*",
                                             "/etc/letsencrypt*",
                                             "/etc/wireguard*",
                                             "/etc/openvpn*",
                                             "/etc/ipsec.secrets*",
                                             "/etc/ipsec.d/private*",
                                             "/etc/swanctl/private*",
                                             "/etc/krb5.keytab*",
                                             "/etc/cryptsetup-keys.d*",
                                             "/etc/luks-keys*",
                                             "/etc/credstore*",
                                             "/etc/credstore.encrypted*",
                                             "/etc/NetworkManager/system-connections*",
                                             "/etc/wpa_supplicant*",
                                             "/etc/ppp/chap-secrets*",
                                             "/etc/ppp/pap-secrets*",
                                             "/etc/kubernetes*",
                                             "/etc/rancher*",
                                             "/etc/containers/auth.json*",
                                             "/var/run/secrets/*",
                                             NULL };
static const char *const secret_suffixes[] = { ".pem", ".p12",  ".pfx", ".key", ".keystore",
                                               ".jks", ".kdbx", ".ppk", NULL };
static const char *const secret_names[] = { "id_rsa",         "id_dsa",           "id_ecdsa",
                                            "id_ed25519",     "credentials.json", "secrets.yml",
                                            "secrets.yaml",   "secrets.json",     "service-account.json",
                                            "cookies.sqlite", "logins.json",      "key4.db",
                                            "Login Data",     "Cookies",          NULL };
static const char *const samples[] = {
        ".example", ".sample", ".template", ".dist", ".test", ".tmpl", ".defaults", NULL
};

/* Each suffix begins with its only dot. */
static bool ends_with_any(struct str s, const char *const *suffixes) {
        ptrdiff_t dot = str_rfind(s, '.');
        return dot > 0 && word_in(str_skip(s, (size_t)dot), suffixes);
}

/* The last n components. */
static struct str secrets_tail(struct str path, size_t n) {
        for (size_t i = path.n; i > 0; i--)
                if (path.p[i - 1] == '/' && --n == 0)
                        return str_skip(path, i);
        return path;
}

static bool is_secret(struct sh_arg arg) {
        PLACE_PATH_UNSET struct place_path out;
        struct str path;
        bool pattern = path_is_pattern(arg);

        if (arg.text.n == 0 || !path_resolve(arg, &out, &path))
                return false;

        struct str base = secrets_tail(path, 1);
        if (ends_with_any(base, samples))
                return false;
        if (word_in(base, secret_names) || ends_with_any(base, secret_suffixes))
                return true;

        bool look = pattern || path_has_hidden(path) || str_starts(path, STR("~/snap/"));
        for (const char *const *p = secret_files; *p && look; p++) {
                unsigned budget = 2000;
                struct str want = str_of(*p);
                if (!pattern && path.n < want.n - (want.p[want.n - 1] == '*'))
                        continue;
                if (path_overlap(secrets_tail(path, path_components(want)), want, true, &budget))
                        return true;
        }

        for (const char *const *p = secret_system; *p && path.n && path.p[0] == '/'; p++) {
                unsigned budget = 2000;

                if (!pattern && path.n > 1 && path.p[1] != (*p)[1] && !path_is_wild(path.p[1]))
                        continue;

                struct str want = str_of(*p), directory = str_first(want, want.n - (want.p[want.n - 1] == '*'));
                if (path_overlap(path, want, true, &budget))
                        return true;
                if (str_starts(path, directory) && path.n > directory.n && path.p[directory.n] == '/')
                        return true; /* below it, at any depth */
        }

        return false;
}

bool names_credential(struct sh_arg arg) {
        struct str text = arg.text;

        if (is_secret(arg))
                return true;

        unsigned left = 8; /* separators that are looked behind */
        for (size_t i = 0; i < text.n && left > 0; i++)
                if (text.p[i] == '=' || text.p[i] == '@' || text.p[i] == ':') {
                        left--;
                        arg.text = str_skip(text, i + 1);
                        if (is_secret(arg))
                                return true;
                }

        return false;
}
