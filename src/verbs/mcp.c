/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/mcp.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "conf/json.h"

#include <errno.h>
#include <stdio.h>

enum { ERROR_PARSE = -32700, ERROR_REQUEST = -32600, ERROR_METHOD = -32601, ERROR_PARAMS = -32602, ID_MAX = 256 };

/* Newest first. */
static const char *const versions[] = { "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", NULL };

static const char instructions[] = "Bailey confines this project's commands. Use check before a command that may need "
                                   "a person, why to learn which rule "
                                   "decides about a host or a path, request_access to have a person decide about a "
                                   "host, a path or a command, and run to run a command in a "
                                   "sandbox (only where the agent itself is not in one).";

/* Each tool with its schema, as it goes out. */
static const char tool_list[] =
    "{\"tools\":["
    "{\"name\":\"run\",\"title\":\"Run a command in a sandbox\",\"description\":\"Judges a shell command and runs it "
    "confined by the project's policy. A command that needs a person is asked about in the way that the policy names; "
    "without an answer it does not run.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"command\":{\"type\":"
    "\"string\",\"description\":\"text for a shell\"},\"timeout_seconds\":{\"type\":\"integer\",\"minimum\":1,"
    "\"maximum\":3600,\"description\":\"default 120\"}},\"required\":[\"command\"],\"additionalProperties\":false},"
    "\"annotations\":{\"readOnlyHint\":false,\"destructiveHint\":true,\"openWorldHint\":true}},"
    "{\"name\":\"check\",\"title\":\"Judge a command\",\"description\":\"Says whether a shell command would be "
    "allowed, "
    "runs confined, needs a person, or is forbidden, with the rule and the reason. Nothing is run.\",\"inputSchema\":"
    "{\"type\":\"object\",\"properties\":{\"command\":{\"type\":\"string\"}},\"required\":[\"command\"],"
    "\"additionalProperties\":false},\"annotations\":{\"readOnlyHint\":true,\"openWorldHint\":false}},"
    "{\"name\":\"why\",\"title\":\"Explain a verdict\",\"description\":\"Says which rule decides about a host or a "
    "path, "
    "and what would change it.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"target\":{\"type\":\"string\","
    "\"description\":\"HOST, HOST:PORT, or a path with a slash in it\"}},\"required\":[\"target\"],"
    "\"additionalProperties\":false},\"annotations\":{\"readOnlyHint\":true,\"openWorldHint\":false}},"
    "{\"name\":\"request_access\",\"title\":\"Ask a person for access\",\"description\":\"Asks for one host, path or "
    "command. A person reads it with your reason and answers in the ways that the policy names (terminal, bailey "
    "allow, webhook), or the time runs out. A path needs a new start of the sandbox.\",\"inputSchema\":{\"type\":"
    "\"object\",\"properties\":{\"host\":{\"type\":\"string\",\"description\":\"HOST or HOST:PORT; port 443 by "
    "default\"},\"path\":{\"type\":\"string\"},\"access\":{\"enum\":[\"read\",\"write\"],"
    "\"description\":\"to the path; read by "
    "default\"},\"command\":{\"type\":\"string\"},\"reason\":{\"type\":\"string\","
    "\"description\":\"why it is needed\"},\"timeout_seconds\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":600,"
    "\"description\":\"default 50\"}},\"required\":[\"reason\"],\"additionalProperties\":false},\"annotations\":"
    "{\"readOnlyHint\":false,\"destructiveHint\":false,\"openWorldHint\":true}}"
    "]}";

/* --- replies ------------------------------------------------------------------------------------------------------ */

/* The id as it came: a number or a text; NULL: null. */
static struct emit reply_open(struct buf *out, const struct node *id) {
        struct emit j = emit_to(out);

        emit_open(&j, '{');
        emit_put_text(&j, "jsonrpc", "2.0");
        emit_key(&j, "id");

        if (!id)
                emit_null(&j);
        else if (id->quoted)
                emit_string(&j, id->text);
        else
                emit_raw(&j, id->text);

        return j;
}

static int reply_close(struct emit *j) {
        emit_close(j);

        int r = emit_status(j);
        if (r < 0)
                return r;

        return buf_add_char(j->out, '\n');
}

static int reply_error(struct buf *out, const struct node *id, int code, const char *text) {
        char number[32];
        struct emit j = reply_open(out, id);

        snprintf(number, sizeof number, "%d", code);
        emit_key(&j, "error");
        emit_open(&j, '{');
        emit_key(&j, "code");
        emit_raw(&j, str_of(number));
        emit_put_text(&j, "message", text);
        emit_close(&j);

        return reply_close(&j);
}

/* `result` is JSON. */
static int reply_result(struct buf *out, const struct node *id, struct str result) {
        struct emit j = reply_open(out, id);

        emit_key(&j, "result");
        emit_raw(&j, result);

        return reply_close(&j);
}

/* --- methods ------------------------------------------------------------------------------------------------------ */

static bool is_text(const struct node *node) {
        return node && node->kind == NODE_SCALAR && node->quoted;
}

static const char *version_for(const struct node *params) {
        const struct node *wanted =
            params && params->kind == NODE_MAP ? node_get(params, STR("protocolVersion")) : NULL;

        for (size_t i = 0; versions[i] && is_text(wanted); i++)
                if (str_is(wanted->text, versions[i]))
                        return versions[i];
        return versions[0];
}

static int do_initialize(struct mcp *mcp, const struct node *id, const struct node *params, struct buf *out) {
        cleanup(buf_done) struct buf result = BUF(8192);
        struct emit j = emit_to(&result);

        emit_open(&j, '{');
        emit_put_text(&j, "protocolVersion", version_for(params));
        emit_key(&j, "capabilities");
        emit_open(&j, '{');
        emit_key(&j, "tools");
        emit_open(&j, '{');
        emit_close(&j);
        emit_close(&j);
        emit_key(&j, "serverInfo");
        emit_open(&j, '{');
        emit_put_text(&j, "name", "bailey");
        emit_put_text(&j, "title", "Bailey");
        emit_put_text(&j, "version", mcp->version);
        emit_close(&j);
        emit_put_text(&j, "instructions", instructions);
        emit_close(&j);

        if (emit_status(&j) < 0)
                return -ENOMEM;

        mcp->ready = true;
        return reply_result(out, id, buf_str(&result));
}

/* What a tool said, as text for any client and as an object for those that read it. */
static int reply_called(struct buf *out, const struct node *id, struct str said, bool failed) {
        cleanup(buf_done) struct buf result = BUF(MCP_REPLY_MAX);
        struct emit j = emit_to(&result);
        int r;

        emit_open(&j, '{');
        emit_key(&j, "content");
        emit_open(&j, '[');
        emit_open(&j, '{');
        emit_put_text(&j, "type", "text");
        emit_put_string(&j, "text", said);
        emit_close(&j);
        emit_close(&j);
        emit_put_bool(&j, "isError", failed);
        emit_key(&j, "structuredContent");
        emit_raw(&j, said);
        emit_close(&j);

        r = emit_status(&j);
        if (r < 0)
                return r;

        return reply_result(out, id, buf_str(&result));
}

static int do_call(struct mcp *mcp, const struct node *id, const struct node *params, struct buf *out) {
        cleanup(buf_done) struct buf said = BUF(MCP_REPLY_MAX / 4);
        const struct node *name = NULL, *arguments = NULL;
        struct err err = { 0 };
        bool failed = false;
        int r;

        if (params && params->kind == NODE_MAP) {
                name = node_get(params, STR("name"));
                arguments = node_get(params, STR("arguments"));
        }

        if (!is_text(name))
                return reply_error(out, id, ERROR_PARAMS, "params.name must be the name of a tool");
        if (arguments && arguments->kind == NODE_NULL)
                arguments = NULL;
        if (arguments && arguments->kind != NODE_MAP)
                return reply_error(out, id, ERROR_PARAMS, "params.arguments must be an object");

        r = mcp->tools.call(mcp->tools.arg, name->text, arguments, &said, &failed, &err);
        if (r == -ENOENT)
                return reply_error(out, id, ERROR_PARAMS, "there is no such tool; tools/list names them");
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return reply_error(out, id, ERROR_PARAMS, err_text(&err));

        return reply_called(out, id, buf_str(&said), failed);
}

static int do_request(struct mcp *mcp, const struct node *id, struct str method, const struct node *params,
                      struct buf *out) {
        if (str_is(method, "ping"))
                return reply_result(out, id, STR("{}"));
        if (str_is(method, "initialize"))
                return do_initialize(mcp, id, params, out);
        if (!mcp->ready)
                return reply_error(out, id, ERROR_REQUEST, "the first request is initialize");
        if (str_is(method, "tools/list"))
                return reply_result(out, id, str_of(tool_list));
        if (str_is(method, "tools/call"))
                return do_call(mcp, id, params, out);

        return reply_error(out, id, ERROR_METHOD, "this server has no such method");
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

/* A number without a fraction, or a text, both short. */
static bool id_is_valid(const struct node *id) {
        if (id->kind != NODE_SCALAR || id->text.n == 0 || id->text.n > ID_MAX)
                return false;
        if (id->quoted)
                return true;

        for (size_t i = 0; i < id->text.n; i++)
                if (!ascii_is_digit(id->text.p[i]) && !(i == 0 && id->text.p[i] == '-' && id->text.n > 1))
                        return false;

        return true;
}

static int answer_object(struct mcp *mcp, const struct node *root, struct buf *out) {
        const struct node *id = node_get(root, STR("id")), *method = node_get(root, STR("method"));
        const struct node *version = node_get(root, STR("jsonrpc")), *params = node_get(root, STR("params"));

        if (id && !id_is_valid(id))
                return reply_error(out, NULL, ERROR_REQUEST, "an id is a whole number or a text");
        if (!method && (node_get(root, STR("result")) || node_get(root, STR("error"))))
                return 0; /* a reply, to something that was never asked */
        if (!is_text(version) || !str_is(version->text, "2.0"))
                return reply_error(out, id, ERROR_REQUEST, "jsonrpc must be \"2.0\"");
        if (!is_text(method))
                return reply_error(out, id, ERROR_REQUEST, "there is no method");
        if (params && params->kind != NODE_MAP && params->kind != NODE_LIST) {
                if (id)
                        return reply_error(out, id, ERROR_PARAMS, "params must be an object");
                return 0;
        }

        if (id)
                return do_request(mcp, id, method->text, params, out);

        return 0; /* a notification gets no reply */
}

int mcp_answer(struct mcp *mcp, struct str line, struct buf *out) {
        cleanup(document_freep) struct document *document = NULL;
        struct err err = { 0 };
        const struct node *root;

        line = str_trim(line);
        if (line.n && line.p[line.n - 1] == '\r')
                line = str_first(line, line.n - 1);
        if (line.n == 0)
                return 0;
        if (json_read(line, STR("message"), &document, &err) < 0)
                return reply_error(out, NULL, ERROR_PARSE, err_text(&err));

        root = document_root(document);
        if (!root || root->kind != NODE_MAP)
                return reply_error(out, NULL, ERROR_REQUEST, "a message is one object; batches are not taken");

        return answer_object(mcp, root, out);
}

int mcp_answer_too_long(struct buf *out) {
        return reply_error(out, NULL, ERROR_PARSE, "the line is longer than 1 MiB");
}
