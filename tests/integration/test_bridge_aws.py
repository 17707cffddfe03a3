# SPDX-License-Identifier: Apache-2.0
"""Debian's aws by its built-in table, against a stand-in of the services: its requests are signed outside, and what is refused never reaches a server."""
import ast
import contextlib
import hashlib
import hmac
import http.server
import json
import os
import socket
import subprocess
import threading
import urllib.parse

import pytest

from kit.process import SLOW

pytestmark = pytest.mark.visible_home
KEY, SECRET = "AKIAFAKEFAKEFAKE0001", "fake/secret+of+the+account+0123456789abcd"
OTHER = "fake/secret+of+another+profile+0123456789"
TOKEN = "fake-token-of-a-sign-in"
ACCOUNT = "123456789012"

XML = {
    "GetCallerIdentity": f"<GetCallerIdentityResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><GetCallerIdentityResult><Account>{ACCOUNT}</Account>"
                         f"<UserId>AIDA1</UserId><Arn>arn:aws:iam::{ACCOUNT}:user/reader</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>",
    "DescribeInstances": "<DescribeInstancesResponse xmlns='http://ec2.amazonaws.com/doc/2016-11-15/'><reservationSet><item><instancesSet><item>"
                         "<instanceId>i-0abc</instanceId><instanceType>t3.micro</instanceType></item></instancesSet></item></reservationSet></DescribeInstancesResponse>",
    "DescribeVpcs": "<DescribeVpcsResponse xmlns='http://ec2.amazonaws.com/doc/2016-11-15/'><vpcSet><item><vpcId>vpc-1</vpcId></item></vpcSet></DescribeVpcsResponse>",
    "DescribeSubnets": "<DescribeSubnetsResponse xmlns='http://ec2.amazonaws.com/doc/2016-11-15/'><subnetSet><item><subnetId>subnet-1</subnetId></item></subnetSet>"
                       "</DescribeSubnetsResponse>",
    "DescribeSecurityGroups": "<DescribeSecurityGroupsResponse xmlns='http://ec2.amazonaws.com/doc/2016-11-15/'><securityGroupInfo><item><groupId>sg-1</groupId></item>"
                              "</securityGroupInfo></DescribeSecurityGroupsResponse>",
    "ListStacks": "<ListStacksResponse><ListStacksResult><StackSummaries><member><StackName>web</StackName></member></StackSummaries></ListStacksResult></ListStacksResponse>",
    "DescribeStacks": "<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>web</StackName></member></Stacks></DescribeStacksResult>"
                      "</DescribeStacksResponse>",
    "DescribeStackEvents": "<DescribeStackEventsResponse><DescribeStackEventsResult><StackEvents><member><EventId>event-1</EventId></member></StackEvents>"
                           "</DescribeStackEventsResult></DescribeStackEventsResponse>",
    "DescribeDBInstances": "<DescribeDBInstancesResponse><DescribeDBInstancesResult><DBInstances><DBInstance><DBInstanceIdentifier>db-1</DBInstanceIdentifier></DBInstance>"
                           "</DBInstances></DescribeDBInstancesResult></DescribeDBInstancesResponse>",
}
JSON = {
    "DescribeLogGroups": {"logGroups": [{"logGroupName": "/web"}]},
    "FilterLogEvents": {"events": [{"message": "an ERROR of the log"}]},
    "ListClusters": {"clusterArns": ["arn:cluster"]},
    "ListServices": {"serviceArns": ["arn:service"]},
    "DescribeServices": {"services": [{"serviceName": "front"}]},
    "ListTables": {"TableNames": ["orders"]},
    "DescribeTable": {"Table": {"TableName": "orders"}},
}
PATHS = {
    "/clusters": {"clusters": ["blue"]},
    "/2015-03-31/functions/": {"Functions": [{"FunctionName": "resize", "Runtime": "python3.11", "Environment": {"Variables": {"PASSWORD": "of-the-function"}}}]},
}
BUCKETS = ("<ListAllMyBucketsResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><Buckets><Bucket><Name>backups</Name>"
           "<CreationDate>2026-01-01T00:00:00.000Z</CreationDate></Bucket></Buckets></ListAllMyBucketsResult>")
OBJECTS = ("<ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><Name>backups</Name><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated><Contents>"
           "<Key>2026/dump.sql</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>7</Size></Contents></ListBucketResult>")


def signature(method, path, query, headers, body, authorization):
    """The signature of version 4 that a request must have, by what its own header says is signed."""
    fields = dict(part.strip().split("=", 1) for part in authorization.split(" ", 1)[1].split(","))
    scope = fields["Credential"].split("/", 1)[1]
    day, region, service, _ = scope.split("/")
    names = fields["SignedHeaders"].split(";")
    pairs = sorted(urllib.parse.parse_qsl(query, keep_blank_values=True))
    quoted = "&".join(f"{urllib.parse.quote(name, safe='-_.~')}={urllib.parse.quote(value, safe='-_.~')}" for name, value in pairs)
    digest = headers.get("X-Amz-Content-SHA256") or hashlib.sha256(body).hexdigest()
    canonical = "\n".join([method, path, quoted, *(f"{name}:{' '.join(headers[name].split())}" for name in names), "", ";".join(names), digest])
    text = "\n".join(["AWS4-HMAC-SHA256", headers["X-Amz-Date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + SECRET).encode()
    for step in (day, region, service, "aws4_request", text):
        key = hmac.new(key, step.encode(), hashlib.sha256).digest()
    return fields["Credential"].split("/")[0], fields["Signature"], key.hex()


class Services(http.server.ThreadingHTTPServer):
    """As much of the services as the table's verbs ask for. It answers who has signed with the account's key, and nobody else."""
    daemon_threads = True

    def __init__(self, authority):
        self.seen = []
        super().__init__(("127.0.0.1", 0), Services.Handler)
        names = ("sts", "ec2", "s3", "cloudformation", "logs", "ecs", "eks", "lambda", "rds", "dynamodb")
        context = authority.context(*(f"{name}.{region}.amazonaws.com" for name in names for region in ("eu-west-1", "us-east-1")), "*.s3.eu-west-1.amazonaws.com",
                                    "s3.amazonaws.com", "portal.sso.eu-west-1.amazonaws.com")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass  # a handshake that its client gave up

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path, _, query = self.path.partition("?")
            host = self.headers["Host"]
            form = dict(urllib.parse.parse_qsl(body.decode())) if self.headers.get("Content-Type", "").startswith("application/x-www-form") else {}
            action = form.get("Action") or self.headers.get("X-Amz-Target", "").rpartition(".")[2] or path
            self.server.seen.append((self.command, host, action, {**form, **dict(urllib.parse.parse_qsl(query))}, body))
            if path == "/federation/credentials" and self.headers["X-Amz-SSO_Bearer_Token"] == TOKEN:
                role = {"accessKeyId": KEY, "secretAccessKey": SECRET, "sessionToken": "of-the-session", "expiration": 4102444800000}
                return self.say(200, "application/json", json.dumps({"roleCredentials": role}).encode())
            given = signature(self.command, path, query, self.headers, body, self.headers["Authorization"]) if "Authorization" in self.headers else (None, 0, 1)
            if given[0] != KEY or given[1] != given[2]:
                return self.say(403, "text/xml", b"<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code><Message>not signed by the account</Message></Error></ErrorResponse>")
            if action in XML:
                return self.say(200, "text/xml", XML[action].encode())
            if action in JSON:
                return self.say(200, "application/x-amz-json-1.1", json.dumps(JSON[action]).encode())
            if action in PATHS:
                return self.say(200, "application/json", json.dumps(PATHS[action]).encode())
            if host.startswith("backups.s3") or path.startswith("/backups"):
                return self.say(200, "application/xml", b"" if self.command == "HEAD" else OBJECTS.encode())
            if ".s3." in f".{host}":
                return self.say(200, "application/xml", BUCKETS.encode())
            return self.say(404, "text/xml", b"<ErrorResponse><Error><Code>NotFound</Code><Message>no such thing</Message></Error></ErrorResponse>")

        def say(self, status, kind, body):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if self.command == "HEAD":
                self.send_header("ETag", '"7"')
            self.end_headers()
            self.wfile.write(body)
        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *words):
            pass


class Door:
    """The proxy that leads to the world: every name of it is the one server. An ordinary user has no port 443 to listen on."""

    def __init__(self, port):
        self.asked, self.behind = [], port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self.listener.close()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._lead, args=(self.listener.accept()[0],), daemon=True).start()

    def _lead(self, client):
        with contextlib.suppress(OSError), client:
            head = b""
            while b"\r\n\r\n" not in head:
                data = client.recv(4096)
                if not data:
                    return
                head += data
            self.asked.append(head.split()[1].decode())
            with socket.create_connection(("127.0.0.1", self.behind)) as server:
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=self._copy, args=(server, client), daemon=True)
                back.start()
                self._copy(client, server)
                back.join()

    @staticmethod
    def _copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def account(bailey, home, work, authority, closing):
    """account(script): the script in a sandbox with aws by its built-in table, and an account whose key is the tool's alone."""
    services = closing(Services(authority))
    door = closing(Door(services.server_address[1]))
    root = home / "root.pem"
    root.write_bytes(authority.file.read_bytes())
    (home / ".aws").mkdir()
    (home / ".aws/config").write_text(f"[default]\nregion = eu-west-1\nca_bundle = {root}\nmax_attempts = 1\n[profile other]\nregion = eu-west-1\n")
    (home / ".aws/credentials").write_text(f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
                                           f"[other]\naws_access_key_id = {KEY}\naws_secret_access_key = {OTHER}\n")

    def run(script, env=None, **entry):
        # The root is a file more than the table has; everything else of it is as it is built in.
        files = ["~/.aws/config", "~/.aws/credentials", "~/.aws/sso/cache", str(root)]
        policy = {"network": {"upstream_proxy": f"http://127.0.0.1:{door.port}"}, "bridge": {"aws": {"files": files, **entry}}}
        (home / "policy.yaml").write_text(json.dumps(policy))
        audit = home / "audit.jsonl"
        audit.unlink(missing_ok=True)
        services.seen.clear()
        door.asked.clear()
        done = bailey("run", "--policy", str(home / "policy.yaml"), "--audit", str(audit), "--", "bash", "-c", script, cwd=work, timeout=200 * SLOW,
                      env=env or {})
        done.calls = [r for r in map(json.loads, audit.read_text().splitlines()) if r.get("kind") == "command"]
        for word in (KEY, SECRET, OTHER, TOKEN):
            assert word not in done.text + done.errors and word not in audit.read_text(), str(done)
        return done
    run.services, run.door = services, door
    return run


READING = [  # a call, and what its answer has
    ("sts get-caller-identity --query Account --output text", ACCOUNT),
    ("s3 ls", "2026-01-01 00:00:00 backups"),
    ("s3 ls s3://backups/2026/ --recursive --human-readable --summarize", "7 Bytes 2026/dump.sql"),
    ("s3api list-buckets --query 'Buckets[].Name' --output text", "backups"),
    ("s3api list-objects-v2 --bucket backups --prefix 2026/ --max-items 5 --query 'Contents[].Key' --output text", "2026/dump.sql"),
    ("s3api head-object --bucket backups --key 2026/dump.sql", '"ETag"'),
    ("ec2 describe-instances --instance-ids i-0abc --filters Name=instance-type,Values=t3.micro,t3.small --query 'Reservations[].Instances[].InstanceId' --output text", "i-0abc"),
    ("ec2 describe-vpcs --output yaml", "VpcId: vpc-1"),
    ("ec2 describe-subnets --output table", "subnet-1"),
    ("ec2 describe-security-groups --query 'SecurityGroups[0]'", '"GroupId": "sg-1"'),
    ("cloudformation list-stacks --region us-east-1", '"StackName": "web"'),
    ("cloudformation describe-stacks --stack-name web", '"StackName": "web"'),
    ("cloudformation describe-stack-events --stack-name web --max-items 3", '"EventId": "event-1"'),
    ("logs describe-log-groups --log-group-name-prefix /w --max-items 3", '"logGroupName": "/web"'),
    ("logs filter-log-events --log-group-name /web --filter-pattern ERROR --start-time 1 --end-time 2 --max-items 9", "an ERROR of the log"),
    ("ecs list-clusters", "arn:cluster"),
    ("ecs list-services --cluster blue", "arn:service"),
    ("ecs describe-services --cluster blue --services front", '"serviceName": "front"'),
    ("eks list-clusters", '"blue"'),
    ("lambda list-functions --max-items 3 --output text", "resize\tpython3.11"),
    ("rds describe-db-instances", '"DBInstanceIdentifier": "db-1"'),
    ("dynamodb list-tables", '"orders"'),
    ("dynamodb describe-table --table-name orders", '"TableName": "orders"'),
]


def verbs_of(lines):
    return {" ".join(line.split()[:2]) for line in lines}


# The client itself, once for many calls: {number: words}. It writes what each of them said.
CLIENT = """
import contextlib, io, json, sys
from awscli.clidriver import main
said = {}
for number, words in json.load(sys.stdin).items():
    text = io.StringIO()
    text.buffer = io.BytesIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        sys.argv = ["aws", *words]
        status = main()
    said[number] = text.getvalue() + text.buffer.getvalue().decode() + (f"FAILED {status}" if status else "")
json.dump(said, sys.stdout)
"""


def check_answers(account, chosen, parts):
    wrong = [(words, part) for (words, answer), part in zip(chosen, parts, strict=True) if answer not in part or "FAILED" in part]
    assert not wrong, wrong
    assert {method for method, *_ in account.services.seen} <= {"GET", "HEAD", "POST"}
    assert {name.rpartition(":")[2] for name in account.door.asked} == {"443"} and all(".amazonaws.com:" in name for name in account.door.asked), account.door.asked


@pytest.mark.exact_build
@pytest.mark.anybody
def test_every_reading_verb(account, bailey):
    """Lines of the table, as a person uses them: the client signs with the account's key, and its answer comes inside."""
    shown = bailey("bridge", "show", "aws").check().text.partition("\nverbs ")[2].partition("\nnever ")[0]
    assert verbs_of(shown.splitlines()) == verbs_of(words for words, _ in READING), shown
    chosen = READING if os.environ.get("BAILEY_STRESS") else READING[::5]  # each is a second of work
    done = account("".join(f"echo '### {number}'; aws {words} 2>&1 || echo FAILED $?; " for number, (words, _) in enumerate(chosen)))
    check_answers(account, chosen, done.check().text.split("### ")[1:])
    assert [r["allowed"] for r in done.calls] == [True] * len(chosen)


@pytest.mark.root  # the table is the same for everybody
def test_the_client_knows_every_reading_verb(account, home):
    """Each line of the table once: what the table makes of the words is what the client understands, and it asks for nothing else."""
    program = home / "aws"
    program.write_text("#!/usr/bin/python3 -IS\nimport sys\nprint(repr(sys.argv[1:]))\n")
    program.chmod(0o755)
    done = account("".join(f"aws {words}; " for words, _ in READING), program=str(program))
    words = [ast.literal_eval(line) for line in done.check().text.splitlines()]
    assert [r["allowed"] for r in done.calls] == [True] * len(READING) == [True] * len(words), str(done)
    proxy = f"http://127.0.0.1:{account.door.port}"
    said = subprocess.run(["/usr/bin/python3", "-c", CLIENT], input=json.dumps(dict(enumerate(words))), stdout=subprocess.PIPE, text=True, check=True, timeout=200 * SLOW,
                          env={"PATH": "/usr/bin:/bin", "HOME": str(home), "HTTPS_PROXY": proxy, "AWS_PAGER": "", "LANG": "C.UTF-8"}).stdout
    parts = list(json.loads(said).values())
    check_answers(account, READING, parts)
    assert "of-the-function" not in said


REFUSED = [
    "s3 cp s3://backups/2026/dump.sql .", "s3 sync s3://backups .", "s3 rm s3://backups/2026/dump.sql", "s3 mv s3://backups/a s3://backups/b", "s3 mb s3://new",
    "s3 presign s3://backups/2026/dump.sql", "s3 website s3://backups", "s3api get-object --bucket backups --key 2026/dump.sql out",
    "s3api put-object --bucket backups --key x --body data", "s3api delete-object --bucket backups --key x", "ec2 run-instances --image-id ami-1",
    "ec2 terminate-instances --instance-ids i-0abc", "lambda invoke --function-name resize out", "lambda get-function --function-name resize",
    "lambda list-functions --query 'Functions[].Environment'", "cloudformation deploy --template-file data --stack-name web", "logs tail /web",
    "dynamodb scan --table-name orders", "dynamodb put-item --table-name orders --item file://data", "ssm start-session --target i-0abc",
    "secretsmanager get-secret-value --secret-id x", "iam list-users", "ecr get-login-password", "eks get-token --cluster-name blue", "eks update-kubeconfig --name blue",
    "sts assume-role --role-arn x --role-session-name y", "sts get-session-token", "sso login", "configure list", "configure get aws_secret_access_key",
    "configure set region x", "configure export-credentials", "configure import --csv file://data", "history list", "help", "s3 ls help", "s3 help", "--version",
    "s3 ls --endpoint-url http://evil.test", "--endpoint-url http://evil.test s3 ls", "s3 ls --endpoint-url=http://evil.test", "s3 ls --endpoint http://evil.test",
    "s3 ls --profile other", "--profile other s3 ls", "s3 ls --no-verify-ssl", "s3 ls --ca-bundle data", "s3 ls --no-sign-request", "s3 ls --debug", "--debug s3 ls",
    "s3 ls --cli-auto-prompt", "s3 ls --cli-binary-format x", "ec2 describe-instances --cli-input-json file://data", "ec2 describe-instances --cli-input-yaml file://data",
    "ec2 describe-instances --generate-cli-skeleton output", "ec2 describe-instances --filters file://data", "ec2 describe-instances --filters fileb://data",
    "ec2 describe-instances --filters Name=x,Values@=file://data", "ec2 describe-instances --query file://data", "ec2 describe-instances --query fileb://data",
    "ec2 describe-instances --instance-ids file://data", "s3api list-objects-v2 --bucket file://data", "ec2 describe-instances --dry-run --instance-ids i-0abc",
]


def test_what_the_table_refuses(account, work):
    """Writing verbs, other servers and credentials, what prints secrets, what reads and writes files: none of it begins, and nothing leaves."""
    (work / "data").write_text("{}")
    done = account("".join(f"aws {words} </dev/null; test $? = 125 || echo RAN '{words.replace(chr(39), '')}'; " for words in REFUSED)
                   + "cat ~/.aws/config ~/.aws/credentials && echo READ; ls -A ~/.aws && echo LISTED; ls -A; true")
    assert done.check().text.splitlines() == ["data"], str(done)
    assert [r["allowed"] for r in done.calls] == [False] * len(REFUSED)
    assert account.services.seen == [] and account.door.asked == []


ATTACKS = [  # the table lets the words pass; the client and its sandbox do not
    "sts get-caller-identity --region evil.test/", "sts get-caller-identity --region a@evil.test", "s3api list-objects-v2 --bucket ../other",
    "s3api head-object --bucket a@evil.test/ --key x",
]


def test_values_that_would_lead_elsewhere(account):
    done = account("".join(f"aws {words}; test $? -gt 1 || echo RAN '{words}'; " for words in ATTACKS) + "true")
    assert done.check().text == "" and [r["allowed"] for r in done.calls] == [True] * len(ATTACKS), str(done)
    assert account.services.seen == [] and account.door.asked == [], account.services.seen


def test_a_sign_in_and_a_profile(account, home):
    """The person has signed in outside, and AWS_PROFILE says as whom; the same variable says nothing inside."""
    start = "https://corp.awsapps.com/start"
    with (home / ".aws/config").open("a") as config:
        config.write(f"[profile reader]\nregion = eu-west-1\nca_bundle = {home}/root.pem\nsso_start_url = {start}\nsso_region = eu-west-1\nsso_account_id = {ACCOUNT}\n"
                     "sso_role_name = reader\n")
    (home / ".aws/credentials").unlink()
    cache = home / ".aws/sso/cache"
    cache.mkdir(parents=True)
    (cache / f"{hashlib.sha1(start.encode()).hexdigest()}.json").write_text(json.dumps(
        {"startUrl": start, "region": "eu-west-1", "accessToken": TOKEN, "expiresAt": "2099-01-01T00:00:00Z"}))
    done = account("AWS_PROFILE=other aws sts get-caller-identity --query Account --output text; cat ~/.aws/sso/cache/*; true", env={"AWS_PROFILE": "reader"})
    assert done.check().text == f"{ACCOUNT}\n", str(done)
    assert [host.partition(".")[0] for _, host, *_ in account.services.seen] == ["portal", "sts"], account.services.seen


TYPING = """
import os, pty, select, sys, time
pid, master = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
shown, typed, end = b"", False, time.monotonic() + float(os.environ["LIMIT"])
while time.monotonic() < end:
    if select.select([master], [], [], 0.5)[0]:
        try:
            shown += os.read(master, 65536)
        except OSError:
            break
    elif shown and not typed:
        os.write(master, sys.argv[1].encode())
        typed = True
sys.stdout.write(shown.decode(errors="replace") + "---")
"""


def test_at_a_terminal(account, home, work):
    """The client's pager and prompt would take orders from whoever is at the terminal, which is the caller."""
    config = home / ".aws/config"
    config.write_text(config.read_text().replace("[default]\n", "[default]\ncli_auto_prompt = on\ncli_pager = less\n"))
    (work / "typing.py").write_text(TYPING)
    start = f"export TERM=xterm LIMIT={40 * SLOW}; python3 typing.py "
    order = "$'!cat ~/.aws/credentials\\nq\\n' "
    help_page, answer = account(f"{start}{order} aws s3 ls help; {start}{order} aws sts get-caller-identity --query Account --output text").check().text.split("---")[:2]
    assert "it opens a pager" in help_page and answer.startswith(ACCOUNT), (help_page, answer)
    own = account(f"{start}{order} aws s3 ls help", never=["iam: it is not needed"])  # the page, but no pager that starts programs
    assert "Total Objects: 10" in own.check().text and "[default]" not in own.text, str(own)
