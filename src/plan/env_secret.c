/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/env_secret.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

/*
 * By name.
 */
enum match { NAME, PREFIX, SUFFIX };

struct name_row {
        enum match match;
        struct str text;
        const char *why;
};

static const char by_name[] = "credential by name", by_suffix[] = "credential by suffix";

/* Certain: whatever the value is. */
static const struct name_row strong_rows[] = {
        { NAME, STR("GITHUB_TOKEN"), by_name },
        { NAME, STR("GH_TOKEN"), by_name },
        { NAME, STR("NPM_TOKEN"), by_name },
        { NAME, STR("DOCKER_AUTH_CONFIG"), by_name },
        { NAME, STR("GOOGLE_APPLICATION_CREDENTIALS"), by_name },
        { NAME, STR("KUBECONFIG"), by_name },
        { NAME, STR("PGPASSWORD"), by_name },
        { NAME, STR("PGPASSFILE"), by_name },
        { NAME, STR("MYSQL_PWD"), by_name },
        { NAME, STR("REDISCLI_AUTH"), by_name },
        { NAME, STR("SSHPASS"), by_name },
        { NAME, STR("DATABASE_URL"), by_name },
        { NAME, STR("TOKEN"), by_name },
        { NAME, STR("PASSWORD"), by_name },
        { NAME, STR("SECRET"), by_name },
        { NAME, STR("API_KEY"), by_name },
        { SUFFIX, STR("_TOKEN"), by_suffix },
        { SUFFIX, STR("_SECRET"), by_suffix },
        { SUFFIX, STR("_SECRETS"), by_suffix },
        { SUFFIX, STR("_PASSWORD"), by_suffix },
        { SUFFIX, STR("_PASSWD"), by_suffix },
        { SUFFIX, STR("_PASSPHRASE"), by_suffix },
        { SUFFIX, STR("_API_KEY"), by_suffix },
        { SUFFIX, STR("_APIKEY"), by_suffix },
        { SUFFIX, STR("_ACCESS_KEY"), by_suffix },
        { SUFFIX, STR("_SECRET_KEY"), by_suffix },
        { SUFFIX, STR("_PRIVATE_KEY"), by_suffix },
        { SUFFIX, STR("_CREDENTIALS"), by_suffix },
};

/* Harmless, although a row below would match. Their values are still looked at. */
static const struct name_row harmless_rows[] = {
        { NAME, STR("PWD"), NULL },
        { NAME, STR("OLDPWD"), NULL },
        { NAME, STR("INIT_CWD"), NULL },
        { SUFFIX, STR("PUBLIC_KEY"), NULL },
        { SUFFIX, STR("PUBLISHABLE_KEY"), NULL },
        { SUFFIX, STR("GPG_KEY"), NULL }, /* an identifier, in many images */
        { SUFFIX, STR("CACHE_KEY"), NULL },
        { SUFFIX, STR("PRIMARY_KEY"), NULL },
        { SUFFIX, STR("FOREIGN_KEY"), NULL },
        { SUFFIX, STR("PARTITION_KEY"), NULL },
        { SUFFIX, STR("SORT_KEY"), NULL },
        { SUFFIX, STR("MODIFIER_KEY"), NULL },
        { SUFFIX, STR("HOST_KEY"), NULL },
        { SUFFIX, STR("REGISTRY_KEY"), NULL },
        { SUFFIX, STR("COMPOSE_KEY"), NULL },
        { NAME, STR("GIT_CONFIG_KEY"),
          NULL }, /* with its number: the name of a setting, and git fails where one is missing */
        { SUFFIX, STR("BYPASS"), NULL },
        { SUFFIX, STR("NO_PASS"), NULL },
        { SUFFIX, STR("ALLOW_PASS"), NULL },
        { SUFFIX, STR("COMPASS"), NULL },
};

/* Likely: unless the value says no more than yes or no, or is a small number. */
static const struct name_row weak_rows[] = {
        { NAME, STR("PASS"), by_name },
        { NAME, STR("PASSWD"), by_name },
        { NAME, STR("PASSPHRASE"), by_name },
        { NAME, STR("APIKEY"), by_name },
        { NAME, STR("AUTH"), by_name },
        { NAME, STR("PAT"), by_name },
        { NAME, STR("DSN"), by_name },
        { NAME, STR("AUTHORIZATION"), by_name },
        { NAME, STR("CREDENTIALS"), by_name },
        { SUFFIX, STR("_KEY"), by_suffix },
        { SUFFIX, STR("_KEYS"), by_suffix },
        { SUFFIX, STR("_PASS"), by_suffix },
        { SUFFIX, STR("_PASSCODE"), by_suffix },
        { SUFFIX, STR("_PWD"), by_suffix },
        { SUFFIX, STR("_PW"), by_suffix },
        { SUFFIX, STR("_PIN"), by_suffix },
        { SUFFIX, STR("_PAT"), by_suffix },
        { SUFFIX, STR("_DSN"), by_suffix },
        { SUFFIX, STR("_AUTH"), by_suffix },
        { SUFFIX, STR("_AUTHORIZATION"), by_suffix },
        { SUFFIX, STR("_BEARER"), by_suffix },
        { SUFFIX, STR("_JWT"), by_suffix },
        { SUFFIX, STR("_COOKIE"), by_suffix },
        { SUFFIX, STR("_CRED"), by_suffix },
        { SUFFIX, STR("_CREDS"), by_suffix },
        { SUFFIX, STR("_CREDENTIAL"), by_suffix },
        { SUFFIX, STR("_SALT"), by_suffix },
        { SUFFIX, STR("_PASSWORDS"), by_suffix },
        { SUFFIX, STR("_CONNECTION_STRING"), by_suffix },
        { SUFFIX, STR("_KEY_BASE"), by_suffix },
        { SUFFIX, STR("AUTHTOKEN"), by_suffix },
        { SUFFIX, STR("ACCESSTOKEN"), by_suffix },
        { SUFFIX, STR("APITOKEN"), by_suffix },
        { SUFFIX, STR("APIKEY"), by_suffix },
        { SUFFIX, STR("SECRETKEY"), by_suffix },
        { SUFFIX, STR("PASSWORD"), by_suffix },
        { SUFFIX, STR("PASSWD"), by_suffix },
        { PREFIX, STR("SECRET_"), by_name },
};

/* "DB_PASSWORD_2", "STRIPE_KEY_LIVE": one more of the same. */
static const struct str endings[] = { STR("_OLD"),      STR("_NEW"),    STR("_PROD"), STR("_PRODUCTION"),
                                      STR("_LIVE"),     STR("_TEST"),   STR("_DEV"),  STR("_STAGING"),
                                      STR("_MAIN"),     STR("_BASE64"), STR("_B64"),  STR("_PRIMARY"),
                                      STR("_SECONDARY") };

static bool name_matches(const struct name_row *row, struct str name) {
        const struct str text = row->text;

        if (name.n < text.n || (row->match == NAME && name.n != text.n))
                return false;

        struct str part = row->match == SUFFIX ? str_skip(name, name.n - text.n) : str_first(name, text.n);
        return str_eq_nocase(part, text);
}

static const char *name_find(const struct name_row *rows, size_t n, struct str name, bool *ret_found) {
        for (size_t i = 0; i < n; i++) {
                if (name_matches(&rows[i], name)) {
                        *ret_found = true;
                        return rows[i].why;
                }
        }
        return NULL;
}

/* Without a number or a word of `endings` behind it. */
static struct str name_stem(struct str name) {
        struct str stem = name;

        while (stem.n > 0 && ascii_is_digit(stem.p[stem.n - 1]))
                stem.n--;

        if (stem.n < name.n && stem.n > 0 && stem.p[stem.n - 1] == '_')
                stem.n--;

        for (size_t i = 0; i < COUNT(endings); i++) {
                const struct str ending = endings[i];

                if (stem.n > ending.n && str_eq_nocase(str_skip(stem, stem.n - ending.n), ending))
                        return str_first(stem, stem.n - ending.n);
        }

        return stem;
}

/* A switch or a small number is no secret; nor is a name without a value. */
static bool value_is_plain(struct str value) {
        static const struct str plain[] = { STR("true"), STR("false"),   STR("yes"),  STR("no"),
                                            STR("on"),   STR("off"),     STR("none"), STR("null"),
                                            STR("auto"), STR("default"), STR("basic") };
        uint64_t number;

        if (value.n == 0)
                return true;

        for (size_t i = 0; i < COUNT(plain); i++)
                if (str_eq_nocase(value, plain[i]))
                        return true;

        return value.n <= 3 && str_to_u64(value, 999, &number);
}

/*
 * By the words of a name, wherever they stand: PARTNER_JWT_V2, SLACK_WEBHOOK_URL_OPS, vendorTokenForBuild. A word that
 * says what else is known about the secret, at the end, makes it a setting: TOKEN_FILE, JWT_ALGORITHM.
 */
enum { WORDS_MAX = 16 };

static const struct str secret_words[] = {
        STR("TOKEN"),       STR("SECRET"),     STR("SECRETS"),    STR("PASSWORD"), STR("PASSWORDS"),
        STR("PASSWD"),      STR("PASSPHRASE"), STR("PASSCODE"),   STR("APIKEY"),   STR("APIKEYS"),
        STR("JWT"),         STR("JWTS"),       STR("BEARER"),     STR("CREDS"),    STR("CREDENTIAL"),
        STR("CREDENTIALS"), STR("PRIVATEKEY"), STR("ACCESSKEY"),  STR("AUTHKEY"),  STR("PAT"),
        STR("DSN"),         STR("SECRETKEY"),  STR("SIGNINGKEY"), STR("MNEMONIC"), STR("SEEDPHRASE"),
        STR("ACCESSTOKEN"), STR("AUTHTOKEN"),
};

/* In front of KEY. */
static const struct str key_words[] = {
        STR("API"),   STR("ACCESS"),  STR("PRIVATE"), STR("SECRET"),  STR("SIGNING"), STR("ENCRYPTION"), STR("MASTER"),
        STR("AUTH"),  STR("SERVICE"), STR("ACCOUNT"), STR("LICENSE"), STR("DEPLOY"),  STR("SSH"),        STR("SESSION"),
        STR("ADMIN"), STR("CLIENT"),  STR("JWT"),     STR("DATA"),    STR("ROOT"),    STR("STORAGE"),
};

static const struct str setting_words[] = {
        STR("FILE"),       STR("PATH"),        STR("DIR"),        STR("HOST"),     STR("PORT"),    STR("NAME"),
        STR("TYPE"),       STR("ALG"),         STR("ALGORITHM"),  STR("TTL"),      STR("EXPIRY"),  STR("EXPIRES"),
        STR("LIMIT"),      STR("LENGTH"),      STR("SIZE"),       STR("COUNT"),    STR("TIMEOUT"), STR("ENABLED"),
        STR("DISABLED"),   STR("MODE"),        STR("PROVIDER"),   STR("METHOD"),   STR("HEADER"),  STR("ISSUER"),
        STR("REGION"),     STR("AUDIENCE"),    STR("POLICY"),     STR("PROMPT"),   STR("STORE"),   STR("HELPER"),
        STR("FORMAT"),     STR("SOCK"),        STR("DOMAIN"),     STR("REALM"),    STR("USER"),    STR("USERNAME"),
        STR("SERVER"),     STR("PARALLELISM"), STR("EXPIRATION"), STR("ENDPOINT"), STR("URL"),     STR("URI"),
        STR("ADDR"),       STR("MANAGER"),     STR("CMD"),        STR("COMMAND"),  STR("FILES"),   STR("ID"),
        STR("MIN"),        STR("MAX"),         STR("INTERVAL"),   STR("BACKEND"),  STR("HASHER"),  STR("HASHERS"),
        STR("VALIDATORS"), STR("SCOPE"),       STR("SCOPES"),     STR("PREFIX"),   STR("VERSION"), STR("COLOR"),
        STR("BUDGET"),
};

struct name_words {
        struct str word[WORDS_MAX];
        size_t n;
};

static bool ascii_is_lower(char c) {
        return c >= 'a' && c <= 'z';
}

/* At everything that is no letter or digit, and where a capital follows a small letter. */
static void name_split(struct str name, struct name_words *ret) {
        size_t start = 0;

        ret->n = 0;

        for (size_t i = 0; i <= name.n; i++) {
                bool ends = i == name.n || !ascii_is_alnum(name.p[i]);
                bool camel =
                    !ends && i > start && ascii_is_lower(name.p[i - 1]) && name.p[i] >= 'A' && name.p[i] <= 'Z';

                if (!ends && !camel)
                        continue;
                if (i > start && ret->n < WORDS_MAX)
                        ret->word[ret->n++] = str_n(name.p + start, i - start);

                start = camel ? i : i + 1;
        }
}

static bool word_is_one_of(struct str word, const struct str *list, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (str_eq_nocase(word, list[i]))
                        return true;
        return false;
}

static bool is_small_number(struct str value) {
        uint64_t number;

        return value.n <= 9 && str_to_u64(value, 999999999, &number);
}

static bool words_name_webhook(const struct name_words *words, struct str value) {
        for (size_t i = 0; i < words->n; i++)
                if (str_eq_nocase(words->word[i], STR("WEBHOOK")) || str_eq_nocase(words->word[i], STR("WEBHOOKS")))
                        return str_starts(value, STR("http")); /* whoever knows the address may post to it */
        return false;
}

static bool words_name_secret(const struct name_words *words) {
        if (words->n == 0 || word_is_one_of(words->word[words->n - 1], setting_words, COUNT(setting_words)))
                return false;

        for (size_t i = 0; i < words->n; i++) {
                struct str word = words->word[i];
                bool key = str_eq_nocase(word, STR("KEY")) || str_eq_nocase(word, STR("KEYS"));

                if (word_is_one_of(word, secret_words, COUNT(secret_words)))
                        return true;
                if (key && i > 0 && word_is_one_of(words->word[i - 1], key_words, COUNT(key_words)))
                        return true;
        }

        return false;
}

static const char *env_secret_words(struct str name, struct str value) {
        struct name_words words;

        if (value.n < 6 || is_small_number(value))
                return NULL;

        name_split(name, &words);
        if (words_name_webhook(&words, value))
                return "the address of a webhook";

        if (words_name_secret(&words))
                return "credential by a word of its name";

        return NULL;
}

const char *env_secret_name(struct str name, struct str value) {
        struct str stem = name_stem(name);
        bool found = false;
        const char *why;

        why = name_find(strong_rows, COUNT(strong_rows), name, &found);
        if (!found)
                why = name_find(strong_rows, COUNT(strong_rows), stem, &found);
        if (found)
                return why;

        (void)name_find(harmless_rows, COUNT(harmless_rows), stem, &found);
        if (found || value_is_plain(value))
                return NULL;

        why = name_find(weak_rows, COUNT(weak_rows), stem, &found);
        if (found)
                return why;

        return env_secret_words(name, value);
}

/*
 * By value: a known beginning at the start of a word, followed by enough of what keys are made of.
 */
enum letters { LETTERS_KEY, LETTERS_UPPER, LETTERS_DIGIT };
/* Of what the rest consists. DIGIT: the beginning is found in names of packages and paths too, so that the rest must
 * have a digit, as random text of its length has and words that are joined by dashes mostly have not. */

static const struct token_row {
        const char *text;
        size_t least; /* characters behind it */
        enum letters letters;
} token_rows[] = {
        { "sk-ant-", 8, LETTERS_KEY },
        { "sk-proj-", 8, LETTERS_KEY },
        { "sk-svcacct-", 8, LETTERS_KEY },
        { "sk-or-v1-", 8, LETTERS_KEY },
        { "sk-", 20, LETTERS_DIGIT },    /* OpenAI, DeepSeek and others */
        { "sk_live_", 16, LETTERS_KEY }, /* Stripe and those who took its form */
        { "sk_test_", 16, LETTERS_KEY },
        { "rk_live_", 16, LETTERS_KEY },
        { "rk_test_", 16, LETTERS_KEY },
        { "whsec_", 16, LETTERS_KEY },
        { "ghp_", 30, LETTERS_KEY }, /* GitHub */
        { "gho_", 30, LETTERS_KEY },
        { "ghu_", 30, LETTERS_KEY },
        { "ghs_", 30, LETTERS_KEY },
        { "ghr_", 30, LETTERS_KEY },
        { "github_pat_", 20, LETTERS_KEY },
        { "glpat-", 16, LETTERS_KEY }, /* GitLab */
        { "gldt-", 16, LETTERS_KEY },
        { "glrt-", 16, LETTERS_KEY },
        { "glsa_", 20, LETTERS_KEY }, /* Grafana */
        { "glc_", 20, LETTERS_DIGIT },
        { "xoxb-", 10, LETTERS_KEY }, /* Slack */
        { "xoxp-", 10, LETTERS_KEY },
        { "xoxa-", 10, LETTERS_KEY },
        { "xoxs-", 10, LETTERS_KEY },
        { "xoxe.", 10, LETTERS_KEY },
        { "xapp-", 10, LETTERS_KEY },
        { "AKIA", 16, LETTERS_UPPER }, /* AWS */
        { "ASIA", 16, LETTERS_UPPER },
        { "AIza", 30, LETTERS_KEY }, /* Google */
        { "ya29.", 20, LETTERS_KEY },
        { "GOCSPX-", 16, LETTERS_KEY },
        { "npm_", 30, LETTERS_DIGIT },
        { "pypi-", 30, LETTERS_DIGIT },
        { "hf_", 24, LETTERS_DIGIT }, /* Hugging Face */
        { "gsk_", 24, LETTERS_KEY },  /* Groq */
        { "xai-", 24, LETTERS_DIGIT },
        { "pplx-", 24, LETTERS_KEY },
        { "r8_", 30, LETTERS_DIGIT },   /* Replicate */
        { "tgp_v1_", 20, LETTERS_KEY }, /* Together */
        { "fw_", 22, LETTERS_DIGIT },   /* Fireworks */
        { "csk-", 24, LETTERS_DIGIT },  /* Cerebras */
        { "nvapi-", 24, LETTERS_KEY },  /* NVIDIA */
        { "dop_v1_", 30, LETTERS_KEY }, /* DigitalOcean */
        { "dckr_pat_", 16, LETTERS_KEY },
        { "SG.", 40, LETTERS_KEY },    /* SendGrid */
        { "key-", 32, LETTERS_DIGIT }, /* Mailgun */
        { "shpat_", 24, LETTERS_KEY }, /* Shopify */
        { "shpss_", 24, LETTERS_KEY },
        { "lin_api_", 24, LETTERS_KEY }, /* Linear */
        { "ntn_", 30, LETTERS_DIGIT },   /* Notion */
        { "figd_", 24, LETTERS_KEY },    /* Figma */
        { "sbp_", 30, LETTERS_DIGIT },   /* Supabase */
        { "sb_secret_", 16, LETTERS_KEY },
        { "sntrys_", 24, LETTERS_KEY }, /* Sentry */
        { "phc_", 30, LETTERS_DIGIT },  /* PostHog */
        { "phx_", 30, LETTERS_DIGIT },
        { "hvs.", 20, LETTERS_KEY }, /* HashiCorp Vault */
        { "hvb.", 20, LETTERS_KEY },
        { "atlasv1.", 20, LETTERS_KEY },
        { "ATATT", 30, LETTERS_KEY }, /* Atlassian */
        { "ATBB", 28, LETTERS_KEY },
        { "dp.st.", 20, LETTERS_KEY }, /* Doppler */
        { "dp.pt.", 20, LETTERS_KEY },
        { "fo1_", 24, LETTERS_KEY }, /* Fly.io */
        { "FlyV1 ", 20, LETTERS_KEY },
        { "cfat_", 24, LETTERS_KEY }, /* Cloudflare */
        { "vercel_", 24, LETTERS_DIGIT },
        { "rnd_", 24, LETTERS_DIGIT }, /* Render */
        { "pul-", 30, LETTERS_DIGIT }, /* Pulumi */
        { "AGE-SECRET-KEY-1", 20, LETTERS_KEY },
        { "ops_ey", 30, LETTERS_KEY }, /* 1Password */
};

/* Texts that are found anywhere. */
static const struct text_row {
        const char *text, *why;
} text_rows[] = {
        { "PRIVATE KEY-----", "a private key" },
        { "PuTTY-User-Key-File-", "a private key" },
        { "\"private_key\"", "a private key" },
        { "AccountKey=", "a connection string with a key" },
        { "SharedAccessKey=", "a connection string with a key" },
        { "SharedAccessSignature=", "a connection string with a key" },
        { "hooks.slack.com/", "the address of a webhook" },
        { "/api/webhooks/", "the address of a webhook" },
        { ".webhook.office.com/", "the address of a webhook" },
        { "outlook.office.com/webhook", "the address of a webhook" },
        { "hooks.zapier.com/hooks/", "the address of a webhook" },
        { "api.telegram.org/bot", "the address of a webhook" },
};

static bool is_key_letter(char c, enum letters letters) {
        if (letters == LETTERS_UPPER)
                return ascii_is_digit(c) || (c >= 'A' && c <= 'Z');
        return ascii_is_alnum(c) || c == '_' || c == '-' || c == '.' || c == '=' || c == '+' || c == '/';
}

static size_t run_of(struct str text, enum letters letters) {
        size_t n = 0;

        while (n < text.n && is_key_letter(text.p[n], letters))
                n++;
        return n;
}

static bool has_digit(struct str text) {
        for (size_t i = 0; i < text.n; i++)
                if (ascii_is_digit(text.p[i]))
                        return true;
        return false;
}

static bool value_token_at(struct str rest) {
        for (size_t i = 0; i < COUNT(token_rows); i++) {
                const struct token_row *row = &token_rows[i];

                if (rest.p[0] != row->text[0] || !str_starts(rest, str_of(row->text)))
                        continue;

                struct str tail = str_skip(rest, strlen(row->text));
                size_t n = run_of(tail, row->letters);
                bool random = row->letters != LETTERS_DIGIT || has_digit(str_first(tail, n));
                if (n >= row->least && random && !memchr(tail.p, '/', row->least))
                        return true;
        }

        return false;
}

static size_t base64_part(struct str text) {
        size_t n = 0;

        while (n < text.n && (ascii_is_alnum(text.p[n]) || text.p[n] == '-' || text.p[n] == '_'))
                n++;
        return n;
}

/* Three parts in base64url, of which the first is JSON: it begins with {" and so with eyJ. */
static bool value_jwt_at(struct str rest) {
        if (!str_starts(rest, STR("eyJ")))
                return false;

        size_t head = base64_part(rest);
        if (head < 10 || head >= rest.n || rest.p[head] != '.')
                return false;

        struct str body = str_skip(rest, head + 1);
        size_t n = base64_part(body);

        return n >= 10 && n < body.n && body.p[n] == '.';
}

/* From behind "://": does the part before the first '/' have a user with a password? A reference to another variable
 * in its place is none. */
static bool url_has_password(struct str rest) {
        ptrdiff_t colon = -1, at = -1;

        for (size_t i = 0; i < rest.n && !strchr("/?# \t\n'\"<>", rest.p[i]); i++) {
                if (rest.p[i] == ':' && colon < 0)
                        colon = (ptrdiff_t)i;
                if (rest.p[i] == '@')
                        at = (ptrdiff_t)i;
        }

        if (colon < 0 || at <= colon + 1)
                return false;

        return !strchr("$*<{%", rest.p[colon + 1]) || (rest.p[colon + 1] == '%' && at > colon + 4);
}

/* user:password@tcp(host:3306)/db, as Go's driver of MySQL has it. */
static bool value_is_driver_dsn(struct str value) {
        ptrdiff_t colon = str_find(value, ':'), at = str_find(value, '@');

        if (colon <= 0 || at <= colon + 1 || (size_t)at + 5 >= value.n)
                return false;

        struct str rest = str_skip(value, (size_t)at + 1);
        return str_starts(rest, STR("tcp(")) || str_starts(rest, STR("unix("));
}

/* "host=x password=y", "Server=x;Password=y;": a key of that name, at the start of a word, with a value. */
static bool value_setting_at(struct str rest) {
        static const struct str keys[] = { STR("password="),   STR("passwd="), STR("pwd="),
                                           STR("_authToken="), STR("_auth="),  STR("_password=") };

        for (size_t i = 0; i < COUNT(keys); i++) {
                const struct str key = keys[i];

                if (rest.n > key.n && str_eq_nocase(str_first(rest, key.n), key) && !strchr("$ ;&*<", rest.p[key.n]))
                        return true;
        }

        return false;
}

/* In a URL: "?access_token=...". */
static bool value_parameter_at(struct str rest) {
        static const char *const keys[] = { "token=",
                                            "access_token=",
                                            "api_key=",
                                            "apikey=",
                                            "api-key=",
                                            "secret=",
                                            "client_secret=",
                                            "sig=",
                                            "signature=",
                                            "auth=",
                                            "key=",
                                            "private_token=",
                                            "auth_token=",
                                            "X-Amz-Signature=",
                                            "X-Goog-Signature=",
                                            "X-Amz-Security-Token=" };

        for (size_t i = 0; i < COUNT(keys); i++) {
                struct str key = str_of(keys[i]);

                if (rest.n > key.n && str_eq_nocase(str_first(rest, key.n), key))
                        return run_of(str_skip(rest, key.n), LETTERS_KEY) >= 12;
        }

        return false;
}

/* A bot of Telegram: its number, a colon, 35 letters. */
static bool value_bot_at(struct str rest) {
        size_t digits = 0;

        while (digits < rest.n && ascii_is_digit(rest.p[digits]))
                digits++;
        if (digits < 8 || digits > 12 || digits >= rest.n || rest.p[digits] != ':')
                return false;
        return base64_part(str_skip(rest, digits + 1)) == 35;
}

static bool value_scheme_at(struct str rest) {
        if (rest.n > 20 &&
            (str_eq_nocase(str_first(rest, 7), STR("bearer ")) || str_eq_nocase(str_first(rest, 6), STR("basic ")))) {
                struct str tail = str_skip(rest, (size_t)str_find(rest, ' ') + 1);

                return run_of(tail, LETTERS_KEY) >= 12 && (has_digit(tail) || memchr(tail.p, '=', tail.n));
        }
        return false;
}

static const char *value_at(struct str value, size_t i) {
        struct str rest = str_skip(value, i);

        if (rest.p[0] == ':')
                return str_starts(rest, STR("://")) && url_has_password(str_skip(rest, 3)) ? "a URL with a password"
                                                                                           : NULL;

        bool word = i == 0 || !(ascii_is_alnum(value.p[i - 1]) || value.p[i - 1] == '_' || value.p[i - 1] == '-');
        if (!word)
                return NULL;
        if (value_token_at(rest))
                return "a key of a known form";
        if (value_jwt_at(rest))
                return "a signed token";
        if (value_bot_at(rest))
                return "a key of a known form";
        if (i > 0 && (value.p[i - 1] == '?' || value.p[i - 1] == '&') && value_parameter_at(rest))
                return "a URL with a key";
        if (value_setting_at(rest) || (i == 0 && value_scheme_at(rest)))
                return "a setting with a password";

        return NULL;
}

const char *env_secret_value(struct str value) {
        if (value.n < 8)
                return NULL;

        for (size_t i = 0; i < value.n; i++) {
                const char *why = value_at(value, i);

                if (why)
                        return why;
        }

        for (size_t i = 0; i < COUNT(text_rows); i++)
                if (memmem(value.p, value.n, text_rows[i].text, strlen(text_rows[i].text)))
                        return text_rows[i].why;

        if (value_is_driver_dsn(value))
                return "a URL with a password";

        return NULL;
}
