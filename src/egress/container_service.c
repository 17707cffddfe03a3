/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway of one container behind `bailey egress`: see containers.h. Its rules are the service's settings and those
 * that were given for this container. They are remembered for a directory of its own, as a guest's are for its home:
 * egress/containers/ENGINE/NAME, which holds nothing, and goes with the container where no rule is.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "container/engine_container.h"
#include "container/engine_network.h"
#include "egress/containers.h"
#include "egress/egress.h"
#include "egress/egress_state.h"
#include "egress/gateway_service.h"
#include "policy/load.h"
#include "roles/vault_session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define AGAIN_NS                                                                                                       \
        (60 * NS_PER_SECOND) /* how often the engine is asked whether the address is still this container's            \
                              */
#define SILENT_NS (10 * 60 * NS_PER_SECOND) /* an engine that does not answer gives no address away either */
enum { TRIES = 10, TRY_MS = 200 };

struct containing {
        const char *engine;
        struct addr addr;
        struct engine_container found;
        uint64_t again_ns, known_ns;
};

/*
 * The process.
 */
static void containing_watch(void *arg, struct poller *poller) {
        poller_watch(poller, CONTAINER_FD_CONTROL, POLLIN);
        poller_until(poller, ((const struct containing *)arg)->again_ns);
}

/* The service is gone or wants the end; or the address was taken from the container while it runs. */
static int containing_step(void *arg, struct poller *poller, struct err *err) {
        struct containing *containing = arg;
        struct engine_container now;
        struct err ignored = { 0 };

        if (poller_ready(poller, CONTAINER_FD_CONTROL))
                return err_set(err, ECANCELED, "the container has ended, or the service");
        if (clock_ns() < containing->again_ns)
                return 0;

        int r = engine_container_at(containing->engine, ENGINE_NETWORK, &containing->addr, &now, &ignored);
        containing->again_ns = clock_ns() + AGAIN_NS;
        if (r < 0 && clock_ns() - containing->known_ns < SILENT_NS)
                return 0;

        if (r == 1 && engine_container_same(&now, &containing->found)) {
                containing->known_ns = clock_ns();
                return 0;
        }

        return err_set(err, ECANCELED, "the address is not the container's any more");
}

static void containing_ready(void *arg, const struct service_info *info) {
        (void)arg;
        log_notice("egress: run %s has the container's own list", info->run_id);
}

static void containing_say(void *arg, bool bad, const char *text) {
        (void)arg;
        if (bad)
                log_warning("egress: %s", text);
        else
                log_notice("egress: %s", text);
}

static int containing_load_tokens(void *arg, const mappings *list, struct vault_process *process, struct err *err) {
        return egress_tokens_load(arg, list, process, false, err);
}

/* The service's own vault has written them. */
static int containing_save_tokens(void *arg, const mappings *list, const struct vault_process *process,
                                  struct err *err) {
        (void)arg;
        (void)list;
        (void)process;
        (void)err;
        return 0;
}

static int container_serve(struct containing *containing, const char *at, struct err *err) {
        cleanup(free_ptr) char *directory = NULL, *workspace = NULL, *name = NULL, *policy = NULL;
        cleanup(egress_settings_done) struct egress_settings settings = { 0 };
        cleanup(close_fd) int held = -1;
        char from[ADDR_TEXT_MAX];
        int r;

        r = egress_directory(true, &directory, err);
        if (r == 0)
                r = egress_settings_load(directory, &settings, err);
        if (r == 0)
                r = egress_container_hold(containing->engine, containing->found.name, &workspace, &held, err);
        if (r < 0)
                return r;

        policy = path_join(directory, EGRESS_POLICY);
        name = str_format("%s/%s", containing->engine, containing->found.name);
        if (!policy || !name)
                return err_memory(err);

        addr_text(&containing->addr, from);
        const char *const clients[] = { from, NULL };
        const struct poller_part part = { containing_watch, containing_step, containing };
        const struct service_handed handed = { CONTAINER_FD_DOOR, at };
        const struct policy_request request = {
                .only_file = policy, .base = "/", .workspace = workspace, .network_only = true
        };
        const struct vault_session_place place = {
                .directory = directory, .load = containing_load_tokens, .save = containing_save_tokens, .arg = directory
        };
        const struct service_settings service = { .policy = &request,
                                                  .name = "egress",
                                                  .container = name,
                                                  .handed = &handed,
                                                  .part = &part,
                                                  .from = clients,
                                                  .place = &place,
                                                  .hosts_file = settings.hosts,
                                                  .ca_bundle = settings.ca_bundle,
                                                  .log_level = LOG_NOTICE,
                                                  .on_ready = containing_ready,
                                                  .on_message = containing_say };

        containing->known_ns = clock_ns();
        containing->again_ns = containing->known_ns + AGAIN_NS;
        r = gateway_service_run(&service, err);
        egress_container_leave(workspace, held);

        return r;
}

/* One that has just begun may not be listed as running yet. */
static int container_find(struct containing *containing, int *ret_first, struct err *err) {
        const struct timespec moment = { .tv_nsec = TRY_MS * 1000000L };
        int r = 0;

        for (unsigned i = 0; i < TRIES; i++) {
                struct pollfd service = { .fd = CONTAINER_FD_CONTROL, .events = POLLIN };

                r = engine_container_hold(containing->engine, ENGINE_NETWORK, &containing->addr, &containing->found,
                                          ret_first, err);
                if (r != 0 || poll(&service, 1, 0) != 0)
                        break;

                nanosleep(&moment, NULL);
        }

        return r;
}

int egress_contain(const char *engine, const char *address, const char *at, struct err *err) {
        struct containing containing = { .engine = engine };
        cleanup(close_fd) int first = -1;
        const struct rlimit no_core = { 0 };
        struct stat st;

        if (fstat(CONTAINER_FD_CONTROL, &st) < 0 || !S_ISSOCK(st.st_mode) || fstat(CONTAINER_FD_DOOR, &st) < 0 ||
            !S_ISSOCK(st.st_mode) || !addr_parse(str_of(address), &containing.addr))
                return err_set(err, EINVAL, "this is for \"bailey egress start\"");

        (void)fcntl(CONTAINER_FD_CONTROL, F_SETFD, FD_CLOEXEC);
        (void)fcntl(CONTAINER_FD_DOOR, F_SETFD, FD_CLOEXEC);
        umask(077);

        if (setrlimit(RLIMIT_CORE, &no_core) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return err_errno(err, "cannot close this process to others");

        int r = container_find(&containing, &first, err);
        if (r <= 0) {
                (void)fd_send(CONTAINER_FD_CONTROL, r < 0 ? STR("f") : STR("n"), NULL, 0);
                return r;
        }

        r = fd_send(CONTAINER_FD_CONTROL, STR("h"), &first, 1);
        if (r < 0)
                return err_set(err, -r, "the service does not listen");

        return container_serve(&containing, at, err);
}
