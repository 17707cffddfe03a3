/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_certificates.h"

#include "base/cleanup.h"
#include "base/paths/path.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *const bundles[] = {
        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Arch, Alpine */
        "/etc/ssl/cert.pem",                  /* Alpine, and where OpenSSL itself looks */
        "/etc/ssl/ca-bundle.pem",             /* SUSE */
        "/etc/ssl/certs/ca-bundle.crt",
        "/etc/pki/tls/certs/ca-bundle.crt", /* Fedora and its kin */
        "/etc/pki/tls/cert.pem",
        "/etc/pki/tls/cacert.pem",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "/var/lib/ca-certificates/ca-bundle.pem",
        "/usr/lib/ssl/cert.pem",
        "/etc/ca-certificates/extracted/tls-ca-bundle.pem",
        "/etc/ca-certificates/extracted/cadir/ca-certificates.crt",
        "/usr/local/share/certs/ca-root-nss.crt",
};

static const char *const stores[] = {
        "/etc/ssl/certs/java/cacerts",
        "/etc/pki/ca-trust/extracted/java/cacerts",
        "/etc/pki/java/cacerts",
        "/etc/ca-certificates/extracted/java-cacerts.jks",
        "/var/lib/ca-certificates/java-cacerts",
};

/* The file behind the name, links resolved: that is where a mount has to be. NULL: there is none. Only in system
 * directories: files in a home or a workspace may be written, and are not the system's. */
static char *system_file(const char *path) {
        static const char *const places[] = { "/etc", "/usr", "/var", "/opt" };
        cleanup(free_ptr) char *real = realpath(path, NULL);
        struct stat st;

        if (!real || stat(real, &st) < 0 || !S_ISREG(st.st_mode))
                return NULL;

        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
                if (path_is_within(real, places[i]))
                        return take_ptr(&real);

        return NULL;
}

static bool is_covered(const struct plan_host *host, const char *path) {
        for (size_t i = 0; i < host->covers.n; i++)
                if (strcmp(host->covers.p[i].path, path) == 0)
                        return true;
        return false;
}

static int cover_one(struct plan_host *host, const char *path, const char *source, struct err *err) {
        cleanup(free_ptr) char *real = system_file(path);
        cleanup(free_ptr) char *from = NULL;

        if (!real || is_covered(host, real))
                return 0;

        from = str_dup(str_of(source));
        if (!from || vec_push(&host->covers, ((struct plan_cover){ real, from })) < 0)
                return err_memory(err);

        (void)take_ptr(&real);
        (void)take_ptr(&from);

        return 0;
}

/* The store of the Java that the environment names. */
static char *java_store(void) {
        const char *home = getenv("JAVA_HOME");

        return home && home[0] == '/' ? str_format("%s/lib/security/cacerts", home) : NULL;
}

int run_certificates_cover(const struct vault_session *vault, struct plan_host *host, struct err *err) {
        cleanup(free_ptr) char *store = java_store();
        int r = 0;

        if (!vault->bundle)
                return 0;

        for (size_t i = 0; i < sizeof bundles / sizeof *bundles && r == 0; i++)
                r = cover_one(host, bundles[i], vault->bundle, err);

        for (size_t i = 0; i < sizeof stores / sizeof *stores && r == 0; i++)
                r = cover_one(host, stores[i], vault->java, err);

        return r == 0 && store ? cover_one(host, store, vault->java, err) : r;
}

bool run_certificates_java(const struct vault_session *vault, const struct plan_host *host) {
        cleanup(free_ptr) char *store = java_store();
        cleanup(free_ptr) char *real = store ? realpath(store, NULL) : NULL;

        if (!vault->java || !host->namespaces)
                return false;
        if (store)
                return real && is_covered(host, real);

        for (size_t i = 0; i < host->covers.n; i++)
                if (strcmp(host->covers.p[i].source, vault->java) == 0)
                        return true;

        return false;
}
