/* SPDX-License-Identifier: Apache-2.0 */
/* Called for every attempt: counts it for the monitor, and passes it to the subscribers. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/live_internal.h"

#include <signal.h>
#include <stdio.h>

static void put_string(struct emit *json, const char *key, struct str s) {
        emit_key(json, key);
        if (s.n)
                emit_string(json, s);
        else
                emit_null(json);
}

static void publish_network(struct live *live, const struct event *ev, const struct snapshot_rule *rule) {
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
        char ts[CLOCK_TEXT_MAX];
        bool file = ev->kind == EVENT_FILE || ev->kind == EVENT_SYSCALL;

        clock_text(ev->wall_us, ts);
        struct emit j = control_event_open(&out, file ? "file" : "network");
        emit_put_text(&j, "ts", ts);

        if (!file) {
                emit_put_text(&j, "kind", event_kind_name((enum event_kind)ev->kind));
                put_string(&j, "domain", ev->domain);
                emit_put_number(&j, "port", ev->port);
                put_string(&j, "method", ev->method);
        }

        put_string(&j, "path", ev->path);
        emit_put_bool(&j, "allowed", ev->allowed);
        if (!file)
                put_string(&j, "rule", rule ? rule->text : STR(""));

        emit_put_text(&j, "reason", reason_code((enum reason)ev->reason));
        if (ev->act.n)
                put_string(&j, "act", ev->act);

        if (!file) {
                emit_put_number(&j, "status", ev->status);
                emit_put_text(&j, "via", event_via_name((enum event_via)ev->via));
                emit_put_text(&j, "protocol", event_scheme_name((enum event_scheme)ev->scheme));
        }

        live_publish(live, &j);
}

/* The hooks run before anything else, so that a sandbox that is ended still raises its alarm. */
static const char *alarm_text(enum monitor_action action) {
        switch (action) {
        case MONITOR_WARN:
                return "this is a warning";
        case MONITOR_PAUSE:
                return "the sandbox is paused; bailey resume lets it go on";
        default:
                return "the sandbox is ended";
        }
}

static void alarm_of(struct live *live, enum monitor_action action, const struct monitor_counter *rule) {
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
        char within[24];

        clock_duration_text(rule->within_ns, within);
        const char *name = monitor_action_name(action);
        cleanup(free_ptr) char *text = str_format("bailey: sandbox %s had %u violations within %s: %s (%s)",
                                                  live->parts.id, rule->violations, within, name, rule->origin);
        (void)audit_note(*live->parts.audit, "monitor: %u violations within %s: %s (%s)", rule->violations, within,
                         name, rule->origin);
        live->alarms++;
        snprintf(live->alarm, sizeof live->alarm, "%u violations within %s: %s", rule->violations, within, name);

        struct emit j = control_event_open(&out, "monitor");
        emit_put_text(&j, "action", name);
        emit_put_number(&j, "violations", rule->violations);
        emit_put_text(&j, "within", within);
        emit_put_text(&j, "origin", rule->origin);
        emit_put_text(&j, "sandbox", live->parts.id);
        emit_put_text(&j, "text", text);

        if (control_close(&j) < 0)
                return;

        control_server_publish(live->server, buf_str(&out));
        live_hooks_tell(live, 0, buf_str(&out));

        if (action != MONITOR_NOTHING)
                log_notice("%u violations within %s: %s", rule->violations, within, alarm_text(action));
}

void live_event(struct live *live, const struct event *ev, const struct snapshot_rule *rule) {
        if (!live || ev->kind == EVENT_NOTE)
                return;

        uint32_t attempts = ev->count ? ev->count : 1;
        if (ev->kind != EVENT_TUNNEL_CLOSE)
                *(ev->allowed ? &live->allowed : &live->refused) += attempts;
        if (control_server_watched(live->server))
                publish_network(live, ev, rule);
        if (live->monitor.counters.n == 0 || !monitor_is_violation(ev))
                return;

        const struct monitor_counter *reached = NULL;
        enum monitor_action action = MONITOR_NOTHING;
        for (uint64_t now = clock_ns(); attempts > 0 && !reached; attempts--)
                action = monitor_count(&live->monitor, now, &reached);

        if (!reached)
                return;

        alarm_of(live, action, reached);

        if (action == MONITOR_PAUSE)
                live_pause(live, "monitor");
        else if (action == MONITOR_KILL)
                live->parts.end(live->parts.run, 128 + SIGKILL);
}
