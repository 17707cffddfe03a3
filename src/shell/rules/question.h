/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Questions that rules ask about a call when its options alone do not decide. */
#include "shell/call.h"

bool deletes_root(const struct sh_call *call);
bool deletes_unknown(const struct sh_call *call);
bool changes_root(const struct sh_call *call);  /* chmod, chown: recursive, of / or the home */
bool writes_disk(const struct sh_call *call);   /* an operand or of= is a disk */
bool writes_system(const struct sh_call *call); /* the last operand (cp, mv, ln, install), any (tee), of= (dd) */
bool writes_protected(const struct sh_call *call);
bool reads_credential(const struct sh_call *call);
bool searches_secrets(const struct sh_call *call); /* find / -name id_rsa */
bool reads_everything(const struct sh_call *call); /* grep -r x ~: secrets are among it */
bool listens_or_runs(const struct sh_call *call);  /* netcat, socat: with a program at its end */
bool scans(const struct sh_call *call);
bool init_stops(const struct sh_call *call);
bool lists_only(const struct sh_call *call); /* fdisk -l */
bool changes_partitions(const struct sh_call *call);
bool saves_download(const struct sh_call *call);
bool kills_others(const struct sh_call *call);
bool opens_permissions(const struct sh_call *call); /* chmod: recursive, setuid, for everyone, of the system */
bool installs_globally(const struct sh_call *call);
bool pip_without_venv(const struct sh_call *call);
bool edits_crontab(const struct sh_call *call);
bool edits_in_place(const struct sh_call *call);
bool changes_network(const struct sh_call *call);
bool has_operand(const struct sh_call *call);
bool sqlite_runs(const struct sh_call *call);
bool git_runs_setting(const struct sh_call *call);
bool git_rewrites(const struct sh_call *call);
bool git_sets_config(const struct sh_call *call);
bool git_only_reads(const struct sh_call *call);
bool asks_version(const struct sh_call *call);
bool only_reads(const struct sh_call *call);
bool find_only_reads(const struct sh_call *call);
bool lists_archive(const struct sh_call *call);
bool makes_from_input(const struct sh_call *call);    /* make -f -, --eval: rules that nobody can look at */
bool find_writes(const struct sh_call *call);         /* find -fprint: to a place that is not for it */
bool archiver_runs(const struct sh_call *call);       /* tar --to-command, --checkpoint-action=exec, -I PROGRAM */
bool controls_containers(const struct sh_call *call); /* anything but looking: docker ps, kubectl get pods */
bool changes_forge(const struct sh_call *call);       /* anything but looking: gh pr view */
bool is_compressor(struct str program);               /* one that tar and sort are told by name every day */
bool runs_module(const struct sh_call *call);         /* python -m pytest */
