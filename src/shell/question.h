/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Questions that rules ask about a call when its options alone do not decide. */
#include "shell/call.h"

bool deletes_root(const struct sh_call *c);
bool deletes_unknown(const struct sh_call *c);
bool changes_root(const struct sh_call *c);  /* chmod, chown: recursive, of / or the home */
bool writes_disk(const struct sh_call *c);   /* an operand or of= is a disk */
bool writes_system(const struct sh_call *c); /* the last operand (cp, mv, ln, install), any (tee), of= (dd) */
bool writes_protected(const struct sh_call *c);
bool reads_credential(const struct sh_call *c);
bool searches_secrets(const struct sh_call *c); /* find / -name id_rsa */
bool reads_everything(const struct sh_call *c); /* grep -r x ~: secrets are among it */
bool listens_or_runs(const struct sh_call *c);  /* netcat, socat: with a program at its end */
bool scans(const struct sh_call *c);
bool init_stops(const struct sh_call *c);
bool lists_only(const struct sh_call *c); /* fdisk -l */
bool changes_partitions(const struct sh_call *c);
bool saves_download(const struct sh_call *c);
bool kills_others(const struct sh_call *c);
bool opens_permissions(const struct sh_call *c); /* chmod: recursive, setuid, for everyone, of the system */
bool installs_globally(const struct sh_call *c);
bool pip_without_venv(const struct sh_call *c);
bool edits_crontab(const struct sh_call *c);
bool edits_in_place(const struct sh_call *c);
bool changes_network(const struct sh_call *c);
bool has_operand(const struct sh_call *c);
bool sqlite_runs(const struct sh_call *c);
bool git_runs_setting(const struct sh_call *c);
bool git_rewrites(const struct sh_call *c);
bool git_sets_config(const struct sh_call *c);
bool git_only_reads(const struct sh_call *c);
bool asks_version(const struct sh_call *c);
bool only_reads(const struct sh_call *c);
bool find_only_reads(const struct sh_call *c);
bool lists_archive(const struct sh_call *c);
bool makes_from_input(const struct sh_call *c);    /* make -f -, --eval: rules that nobody can look at */
bool find_writes(const struct sh_call *c);         /* find -fprint: to a place that is not for it */
bool archiver_runs(const struct sh_call *c);       /* tar --to-command, --checkpoint-action=exec, -I PROGRAM */
bool controls_containers(const struct sh_call *c); /* anything but looking: docker ps, kubectl get pods */
bool changes_forge(const struct sh_call *c);       /* anything but looking: gh pr view */
bool is_compressor(struct str program);            /* one that tar and sort are told by name every day */
bool runs_module(const struct sh_call *c);         /* python -m pytest */
