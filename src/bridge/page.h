/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The address of a page that a program inside wants to be opened outside, in a person's browser. Pure: text in, facts
 * out.
 *
 * An address is https, whole and short enough to be read by a person. What the host's program gets is rebuilt from what
 * was read: every character in it is one that no shell, no browser's command line and no terminal takes for more than a
 * character. A page of a sign-in names where its answer goes (redirect_uri); where that is a port of the loopback
 * address, this port, path and `state` are the callback, the only request that will be carried inside.
 */
#include "policy/match/host.h"

/* Longest address, in the form that is opened: it is shown whole to whoever is asked (QUESTION_SHOWN). */
enum { PAGE_URL_MAX = 3500, PAGE_PATH_MAX = 512, PAGE_STATE_MAX = 1024, PAGE_PORT_FIRST = 1024 };

struct page_callback {
        bool wanted;
        bool v6;       /* the redirect names [::1] */
        uint16_t port; /* PAGE_PORT_FIRST and above */
        char host[16]; /* as the redirect has it: "localhost", "127.0.0.1" or "[::1]" */
        char path[PAGE_PATH_MAX + 1];
        char state[PAGE_STATE_MAX + 1]; /* decoded; "" where the page names none */
};

struct page {
        char url[PAGE_URL_MAX + 1];
        struct authority target;
        struct page_callback callback;
};

/* -EINVAL with why it is not opened. */
int page_parse(struct str text, struct page *ret, struct err *err);

/* One value of a query ("a=1&b=2"), decoded into `ret`. 0: it is not there; 1: it is, once; -EINVAL: twice, too long,
 * or a form that cannot be decoded to visible ASCII. */
int page_query_value(struct str query, const char *key, char *ret, size_t size);
