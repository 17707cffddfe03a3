/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The command line with which git calls ssh, and the one that the host's ssh gets instead of it. Git's own form is tiny
 * (connect.c of git, variant "ssh"):
 *
 *     [-o SendEnv=GIT_PROTOCOL] [-4|-6] [-p PORT] [USER@]HOST "SERVICE 'PATH'"
 *
 * Anything else is refused: an option of ssh can run programs. Nothing of these words is handed on; what runs is built
 * anew from the parts that were understood.
 */
#include "base/err.h"
#include "policy/git/git_verdict.h"

enum ssh_service { SSH_UPLOAD_PACK, SSH_RECEIVE_PACK, SSH_UPLOAD_ARCHIVE, SSH_SERVICES };
enum { SSH_USER_MAX = 64, SSH_PATH_MAX = 150, SSH_DEFAULT_PORT = 22 };
#define SSH_DEFAULT_USER "git"

struct ssh_command {
        struct authority target; /* where ssh is spoken */
        char user[SSH_USER_MAX + 1];
        enum ssh_service service;
        uint8_t protocol; /* of git: 0, 1, 2 */
        uint8_t family;   /* 4, 6, or 0 */
        char sent_path[SSH_PATH_MAX + 1];
        struct str path; /* in sent_path: canonical, as a policy names it */
};

const char *ssh_service_name(enum ssh_service service); /* "git-upload-pack" */
enum git_right ssh_service_right(enum ssh_service service);

/* protocol: the value of GIT_PROTOCOL. -EINVAL with what is wrong, for the person who reads git's output. */
int ssh_command_parse(struct str protocol, const struct str *words, size_t n, struct ssh_command *ret, struct err *err);
/* A path as git sends it, without quotes. `ret` points into text. */
bool ssh_path_parse(struct str text, struct str *ret);
/* [A-Za-z0-9_][A-Za-z0-9._-]*, at most SSH_USER_MAX. */
bool ssh_user_is_valid(struct str user);

/*
 * Where a policy speaks of what is at this place. An entry without a port is for https at 443 and for ssh at 22; one
 * with a port is for that port.
 */
struct authority ssh_judged_target(const struct snapshot *snapshot, const struct authority *target, struct str path);
/* The service alone; a rule under network.deny that names host and port of ssh comes first. */
struct git_verdict ssh_verdict(const struct snapshot *snapshot, const struct authority *target, struct str path,
                               enum git_right right);

/* What is asked of the supervisor: "SERVICE USER PROTOCOL FAMILY PATH", and read there. */
int ssh_request_write(const struct ssh_command *command, char *ret, size_t size);
int ssh_request_read(struct str text, const struct authority *target, struct ssh_command *ret);
