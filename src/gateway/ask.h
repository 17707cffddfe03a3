/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Questions to a person. Calls for the same host and port that wait on one worker share a struct ask; the control
 * thread merges those of all workers into one IPC_ASK. Each call has its own time limit; when the last one leaves, the
 * question is taken back.
 */
#include "gateway/gate_call.h"

/* Holds the call with this question, "" for one about the target itself. answered() goes on with it when the person has
 * spoken, or nobody did (-ETIMEDOUT). -ENOSPC: too many questions or callers wait already. */
typedef void ask_answered_fn(struct gate_call *call, enum decision decision, int error);
int ask_hold(struct gate_call *call, const char *question, ask_answered_fn *answered);
void ask_leave(struct gate_call *call, bool expired);
/* On the worker's thread, from the control thread's answer. `serial` tells an old answer from a new question. */
void ask_answer(struct worker *worker, uint64_t serial, enum decision decision);
/* The policy has changed: what it now decides by itself waits no longer. */
void ask_judge_again(struct worker *worker);
