/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The line to the supervisor, on the main thread's own loop: policies in, questions out, the end. Workers reach it by
 * posting; it reaches them the same way. Nothing a client sent is looked at here.
 */
#include "gateway/gateway.h"
#include "net/loop.h"

struct control;

int control_new(struct gateway *gateway, struct loop *loop, int fd, struct control **ret, struct err *err);
void control_free(struct control *control);
/* Tells the supervisor; on the main thread. */
void control_ready(struct control *control);
void control_failed(struct control *control, const char *why);

/* From the first worker's thread: a worker that rests is wanted. Once is enough, until it runs. */
void control_call_worker(struct control *control, struct worker *worker);
/* From a worker's thread: as it is, to the supervisor. -ENOMEM. */
int control_send(struct control *control, const struct ipc_message *message);
/* From a worker's thread. question: what is asked about the target, "" for the target itself. control_ask: 0 or
 * -ENOMEM; the answer comes as ask_answer() on that thread. */
int control_ask(struct control *control, struct worker *worker, uint64_t serial, const struct authority *target,
                uint8_t via, const char *question);
void control_ask_gone(struct control *control, struct worker *worker, uint64_t serial, bool expired);
