#!/usr/bin/env python3
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for Docker Engine, light enough for dozens of hosts on one machine: dockerd, docker and containerd, by the name it is started as.

It speaks the part of the API (https://docs.docker.com/reference/api/engine/version/v1.41/) and of the command line that the collection
uses, keeps its state in files, and starts what a container runs as a process of its own: mount namespace, volumes, environment, cgroup and
restart policy as Docker does them. Only the files of an image are not its own: a container sees the host's /usr, and at /opt the image's
programs. What it does not know it answers with an error.
"""

import hashlib
import io
import json
import os
import re
import shlex
import signal
import socket
import socketserver
import subprocess
import sys
import tarfile
import threading
import time
import urllib.parse
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler

VERSION, API = "20.10.24", "1.41"
SOCKET = "/run/docker.sock"
ROOT = "/var/lib/docker"
IMAGES, CONTAINERS = ROOT + "/image/overlay2/imagedb", ROOT + "/containers"
CONFIG = "/etc/docker/daemon.json"
PATH = "/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What a container has of the host besides its volumes.
SHARED = ("usr", "etc", "bin", "sbin", "lib", "lib64", "proc", "sys", "dev")
TEMPLATE = re.compile(r"{{(if |json )?\.([\w.]+)}}(?:(.*?){{end}})?", re.S)


def notify(state):
    """Tell systemd, as units of the type notify do."""
    path = os.environ.get("NOTIFY_SOCKET")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as teller:
            teller.sendto(state.encode(), path.replace("@", "\0", 1))


def stamp(seconds=None):
    """A time as the engine writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + ".000000000Z"


def read(path, default=None):
    """A JSON file."""
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return default


def write(path, content):
    """A JSON file, never half of it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w") as file:
        json.dump(content, file)
    os.replace(path + ".new", path)


def images():
    """Every image: what `docker image inspect` says."""
    folder = IMAGES + "/content/sha256"
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [read(os.path.join(folder, name)) for name in names]


def find_image(name):
    """By id, the beginning of one, or reference."""
    for image in images():
        if name in image["RepoTags"] or image["Id"] == name or image["Id"].startswith("sha256:" + name):
            return image
    return None


def fits(tag, wanted):
    """Whether a tag is one of the references, each of which may leave the tag out."""
    return tag in wanted or tag.rpartition(":")[0] in wanted


def selected(container, filters):
    """Whether a container in a list passes: lists of patterns of names, states, and labels with or without a value."""
    unknown = set(filters) - {"name", "status", "label"}
    if unknown:
        raise ValueError("invalid filter {0}".format(", ".join(sorted(unknown))))
    labels = {word for item in container["Labels"].items() for word in (item[0], "=".join(item))}
    names = [name for name in container["Names"] for name in (name, name.lstrip("/"))]
    return (
        any(re.search(pattern, name) for pattern in filters.get("name", [""]) for name in names)
        and container["State"] in filters.get("status", [container["State"]])
        and set(filters.get("label", [])) <= labels
    )


def load_image(archive):
    """Unpack what `docker save` wrote. Returns the references."""
    with tarfile.open(fileobj=archive) as tar:
        members = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    found = []
    for entry in json.loads(members["manifest.json"]):
        text = members[entry["Config"]]
        config, digest = json.loads(text), hashlib.sha256(text).hexdigest()
        files = "{0}/files/{1}".format(IMAGES, digest)
        for layer in entry["Layers"]:
            with tarfile.open(fileobj=io.BytesIO(members[layer])) as content:
                content.extractall(files)
        write(
            "{0}/content/sha256/{1}".format(IMAGES, digest),
            {
                "Id": "sha256:" + digest,
                "RepoTags": entry["RepoTags"],
                "RepoDigests": [],
                "Created": config["created"],
                "Architecture": config["architecture"],
                "Os": config["os"],
                "Size": sum(map(len, members.values())),
                "VirtualSize": sum(map(len, members.values())),
                "Config": config["config"],
                "RootFS": {"Type": "layers", "Layers": config["rootfs"]["diff_ids"]},
            },
        )
        found += entry["RepoTags"]
    return found


def numbers_of(user):
    """The user and the group of `70000:0`; both are root where none is named."""
    uid, _colon, gid = user.partition(":")
    return uid or "0", gid or "0"


def command_of(name, image, words, environment, volumes, extra_hosts=(), user=""):
    """The command line that runs this as the user in a mount namespace with the volumes at their places."""
    root = "/run/docker/" + name
    files = "{0}/files/{1}".format(IMAGES, image["Id"].partition(":")[2])
    script = [
        "set -e",
        "mount --make-rprivate /",
        "mkdir -p {0}; mount -t tmpfs -o mode=0755 container {0}".format(root),
    ]
    for part in SHARED:
        if os.path.islink("/" + part):
            script.append("cp -P /{1} {0}/{1}".format(root, part))
        elif os.path.exists("/" + part):
            script.append("mkdir {0}/{1}; mount --rbind /{1} {0}/{1}".format(root, part))
    binds = [(files + "/opt", "/opt"), *(tuple(volume.split(":")[:2]) for volume in volumes)]
    script.append("mkdir -p {0}/root {0}/run; mkdir -m 1777 {0}/tmp".format(root))
    for source, target in sorted(binds, key=lambda bind: bind[1]):
        place = shlex.quote(root + target)
        make = (
            "mkdir -p {0}".format(place) if os.path.isdir(source) else "mkdir -p $(dirname {0}); : >>{0}".format(place)
        )
        script.append("{0}; mount --bind {1} {2}".format(make, shlex.quote(source), place))
    if extra_hosts:
        lines = [" ".join(reversed(entry.split(":", 1))) for entry in extra_hosts]
        script.append(
            "{{ cat /etc/hosts; printf '%s\\n' {1}; }} >{0}/run/hosts".format(root, " ".join(map(shlex.quote, lines)))
        )
        script.append("mount --bind {0}/run/hosts {0}/etc/hosts".format(root))
    uid, gid = numbers_of(user)
    script.append(
        "exec chroot --userspec={1}:{2} --groups={2} {0} env -i {3}".format(
            root, uid, gid, " ".join(map(shlex.quote, [*environment, *words]))
        )
    )
    return ["unshare", "--mount", "sh", "-c", "\n".join(script)]


def environment_of(image, environment):
    """The image's own, overridden by the container's, as the engine lists it."""
    merged = dict(word.split("=", 1) for word in ["PATH=" + PATH, "HOME=/root", *(image["Config"].get("Env") or [])])
    merged.update(word.split("=", 1) for word in environment or [] if "=" in word)
    return ["{0}={1}".format(*item) for item in sorted(merged.items())]


def enter_cgroup(identity):
    """This process is in the cgroup of a container: programs learn from that which one it is."""
    unified = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    folder = ("/sys/fs/cgroup/docker/" if unified else "/sys/fs/cgroup/systemd/docker/") + identity
    os.makedirs(folder, exist_ok=True)
    with open(folder + "/cgroup.procs", "w") as file:
        file.write("0")


class Container:
    """One container: its settings, and its process if it runs."""

    def __init__(self, content):
        self.content = content
        self.lock = threading.RLock()

    @property
    def folder(self):
        return "{0}/{1}".format(CONTAINERS, self.content["Id"])

    @property
    def log(self):
        return "{0}/{1}-json.log".format(self.folder, self.content["Id"])

    def save(self):
        write(self.folder + "/config.v2.json", self.content)

    def alive(self):
        """Whether its process is there, one that an earlier engine started included."""
        pid = self.content["State"]["Pid"]
        try:
            with open("/proc/{0}/cgroup".format(pid)) as file:
                return bool(pid) and self.content["Id"] in file.read()
        except OSError:
            return False

    def start(self):
        with self.lock:
            if self.alive():
                return
            config, host = self.content["Config"], self.content["HostConfig"]
            words = (config["Entrypoint"] or []) + (config["Cmd"] or [])
            command = command_of(
                self.content["Name"][1:],
                find_image(self.content["Image"]),
                words,
                config["Env"],
                host.get("Binds") or [],
                host.get("ExtraHosts") or [],
                config["User"],
            )
            with open(self.log, "ab") as log:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=lambda: enter_cgroup(self.content["Id"]),
                )
            self.content["State"].update(
                Status="running",
                Running=True,
                Pid=process.pid,
                ExitCode=0,
                StartedAt=stamp(),
                FinishedAt="0001-01-01T00:00:00Z",
            )
            self.content["Stopped"] = False
            self.save()
        threading.Thread(target=self.watch, args=(process.wait,), daemon=True).start()

    def adopt(self):
        """After a restart of the engine: watch what still runs, start what is to run."""
        if self.alive():
            threading.Thread(target=self.watch, args=(self.until_gone,), daemon=True).start()
        elif not self.content["Stopped"] and self.content["HostConfig"]["RestartPolicy"]["Name"] in (
            "always",
            "unless-stopped",
        ):
            self.start()
        else:
            self.ended(137)

    def until_gone(self):
        while self.alive():
            time.sleep(1)
        return 137

    def watch(self, wait):
        pid = self.content["State"]["Pid"]
        code = wait()
        with self.lock:
            if self.content["State"]["Pid"] != pid:
                return
            self.ended(code)
            if self.content["Stopped"] or self.content["HostConfig"]["RestartPolicy"]["Name"] == "no":
                return
            self.content["RestartCount"] += 1
        time.sleep(min(60, 0.1 * 2 ** self.content["RestartCount"]))
        if not self.content["Stopped"] and os.path.isdir(self.folder):
            self.start()

    def ended(self, code):
        self.content["State"].update(Status="exited", Running=False, Pid=0, ExitCode=abs(code), FinishedAt=stamp())
        self.save()

    def stop(self, sign=signal.SIGTERM):
        with self.lock:
            self.content["Stopped"] = True
            pid = self.content["State"]["Pid"]
            if self.alive():
                os.killpg(pid, sign)
                deadline = time.monotonic() + (self.content["Config"].get("StopTimeout") or 10)
                while self.alive() and time.monotonic() < deadline and not self.reaped(pid):
                    time.sleep(0.02)
                if self.alive() and not self.reaped(pid):
                    os.killpg(pid, signal.SIGKILL)
            if self.content["State"]["Running"]:
                self.ended(0)

    @staticmethod
    def reaped(pid):
        """Ended, and waiting only for its parent."""
        try:
            with open("/proc/{0}/stat".format(pid)) as file:
                return file.read().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    def summary(self):
        """Its line in a list."""
        content, state = self.content, self.content["State"]
        return {
            "Id": content["Id"],
            "Names": [content["Name"]],
            "Image": content["Config"]["Image"],
            "ImageID": content["Image"],
            "Command": " ".join([content["Path"], *content["Args"]]),
            "Created": content["CreatedSeconds"],
            "Ports": [],
            "Labels": content["Config"]["Labels"],
            "State": state["Status"],
            "Status": "Up" if state["Running"] else "Exited ({0})".format(state["ExitCode"]),
            "HostConfig": {"NetworkMode": content["HostConfig"]["NetworkMode"]},
            "NetworkSettings": content["NetworkSettings"],
            "Mounts": content["Mounts"],
        }


class Engine:
    """All containers, and the settings of daemon.json."""

    def __init__(self):
        self.lock = threading.Lock()
        self.reload()
        names = sorted(os.listdir(CONTAINERS)) if os.path.isdir(CONTAINERS) else []
        found = (read("{0}/{1}/config.v2.json".format(CONTAINERS, name)) for name in names)
        self.containers = {content["Id"]: Container(content) for content in found if content}
        for container in self.containers.values():
            container.adopt()

    def reload(self):
        self.config = read(CONFIG, {})

    def info(self):
        runtimes = {"runc": {"path": "runc"}, "io.containerd.runc.v2": {"path": "runc"}}
        return {
            "ID": "SCALE",
            "ServerVersion": VERSION,
            "Driver": "overlay2",
            "DockerRootDir": ROOT,
            "CgroupDriver": "cgroupfs",
            "CgroupVersion": "1",
            "LiveRestoreEnabled": self.config.get("live-restore", False),
            "LoggingDriver": self.config.get("log-driver", "json-file"),
            "DefaultRuntime": self.config.get("default-runtime", "runc"),
            "Runtimes": {**runtimes, **self.config.get("runtimes", {})},
            "Containers": len(self.containers),
            "ContainersRunning": sum(one.content["State"]["Running"] for one in self.containers.values()),
            "Images": len(images()),
            "SecurityOptions": [],
            "OperatingSystem": "Debian GNU/Linux 12 (bookworm)",
            "OSType": "linux",
            "Architecture": "x86_64",
            "Name": socket.gethostname(),
        }

    def find(self, name):
        """By id, the beginning of one, or name."""
        for identity, container in self.containers.items():
            if identity.startswith(name) or container.content["Name"][1:] == name:
                return container
        raise KeyError("No such container: {0}".format(name))

    def create(self, name, body):
        image = find_image(body["Image"])
        if not image:
            raise KeyError("No such image: {0}".format(body["Image"]))
        host = {
            "NetworkMode": "default",
            "Binds": None,
            "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
            "Runtime": "runc",
        }
        host.update(
            LogConfig={"Type": "json-file", "Config": {}},
            IpcMode="private",
            PidMode="",
            ExtraHosts=None,
            Privileged=False,
        )
        host.update({"Devices": [], "Ulimits": None, "Mounts": None})
        host.update(body.pop("HostConfig", None) or {})
        body.pop("NetworkingConfig", None)
        if host["Runtime"] not in self.info()["Runtimes"]:
            raise ValueError("Unknown runtime specified {0}".format(host["Runtime"]))
        config = {
            "Hostname": socket.gethostname(),
            "User": "",
            "Tty": False,
            "OpenStdin": False,
            "WorkingDir": "",
            "Labels": {},
            **body,
        }
        config["Env"] = environment_of(image, body.get("Env"))
        config["Entrypoint"] = body.get("Entrypoint") or image["Config"].get("Entrypoint")
        config["Cmd"] = body.get("Cmd") or (None if body.get("Entrypoint") else image["Config"].get("Cmd"))
        words = (config["Entrypoint"] or []) + (config["Cmd"] or [])
        binds = [[*bind.split(":"), ""] for bind in host["Binds"] or []]
        identity = hashlib.sha256(os.urandom(32)).hexdigest()
        container = Container(
            {
                "Id": identity,
                "Created": stamp(),
                "CreatedSeconds": int(time.time()),
                "Path": words[0],
                "Args": words[1:],
                "Name": "/" + name,
                "Image": image["Id"],
                "RestartCount": 0,
                "Driver": "overlay2",
                "Platform": "linux",
                "State": {
                    "Status": "created",
                    "Running": False,
                    "Paused": False,
                    "Restarting": False,
                    "OOMKilled": False,
                    "Dead": False,
                    "Pid": 0,
                    "ExitCode": 0,
                    "Error": "",
                    "StartedAt": "0001-01-01T00:00:00Z",
                    "FinishedAt": "0001-01-01T00:00:00Z",
                },
                "Config": config,
                "HostConfig": host,
                "Mounts": [
                    {
                        "Type": "bind",
                        "Source": bind[0],
                        "Destination": bind[1],
                        "Mode": bind[2],
                        "RW": "ro" not in bind[2].split(","),
                        "Propagation": "rprivate",
                    }
                    for bind in binds
                ],
                "NetworkSettings": {
                    "Networks": {
                        host["NetworkMode"]: {"Aliases": None, "NetworkID": host["NetworkMode"], "IPAddress": ""}
                    }
                },
                "Stopped": True,
            }
        )
        with self.lock:
            if any(one.content["Name"] == "/" + name for one in self.containers.values()):
                raise FileExistsError('Conflict. The container name "/{0}" is already in use'.format(name))
            self.containers[identity] = container
        container.content["LogPath"] = container.log
        container.save()
        return identity

    def remove(self, container):
        container.stop(signal.SIGKILL)
        with self.lock:
            del self.containers[container.content["Id"]]
        for name in os.listdir(container.folder):
            os.unlink(os.path.join(container.folder, name))
        os.rmdir(container.folder)


class Handler(BaseHTTPRequestHandler):
    """One request of the API."""

    protocol_version = "HTTP/1.1"
    server_version = "Docker/" + VERSION
    engine = None

    def address_string(self):
        return "socket"

    def log_message(self, *_arguments):
        """Nothing: the engine logs no requests."""

    def answer(self, status, content=None):
        text = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Api-Version", API)
        if status != 204:  # such an answer has no body, and who gets it may be gone before an empty one is written
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if text:
            self.wfile.write(text)

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            content = b""
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                content += self.rfile.read(size)
                self.rfile.readline()
                if not size:
                    return content
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def handle_any(self):
        path, _mark, query = self.path.partition("?")
        question = {name: values[-1] for name, values in urllib.parse.parse_qs(query).items()}
        words = [urllib.parse.unquote(word) for word in re.sub(r"^/v[\d.]+(?=/)", "", path).strip("/").split("/")]
        body = self.body()
        try:
            found = self.respond(self.command, words, question, body)
        except KeyError as error:
            found = 404, {"message": error.args[0]}
        except FileExistsError as error:
            found = 409, {"message": error.args[0]}
        except Exception as error:  # whatever went wrong, the client has to be told
            found = 500, {"message": "{0}: {1}".format(type(error).__name__, error)}
        self.answer(*found)

    do_GET = do_POST = do_DELETE = do_HEAD = handle_any

    def respond(self, method, words, question, body):
        """Status and content."""
        if words[0] in ("_ping", "version", "info"):
            engine = {"Version": VERSION, "ApiVersion": API, "MinAPIVersion": "1.12", "Os": "linux", "Arch": "amd64"}
            return 200, self.engine.info() if words[0] == "info" else engine
        if words == ["images", "json"]:
            wanted = json.loads(question.get("filters") or "{}").get("reference")
            return 200, [one for one in images() if not wanted or any(fits(tag, wanted) for tag in one["RepoTags"])]
        if words[0] == "images" and words[-1] == "json":
            image = find_image("/".join(words[1:-1]))  # a reference has slashes of its own
            return (200, image) if image else (404, {"message": "No such image: {0}".format("/".join(words[1:-1]))})
        if words == ["images", "load"]:
            names = load_image(io.BytesIO(body))
            return 200, {"stream": "".join("Loaded image: {0}\n".format(name) for name in names)}
        if words == ["containers", "json"]:
            filters = json.loads(question.get("filters") or "{}")
            every = "status" in filters or question.get("all") in ("1", "true", "True")
            listed = [
                one.summary() for one in self.engine.containers.values() if every or one.content["State"]["Running"]
            ]
            return 200, [one for one in listed if selected(one, filters)]
        if words == ["containers", "create"]:
            return 201, {"Id": self.engine.create(question["name"], json.loads(body)), "Warnings": []}
        if words[0] == "containers":
            container = self.engine.find(words[1])
            if method == "DELETE":
                self.engine.remove(container)
                return 204, None
            if words[2] == "json":
                return 200, container.content
            if words[2] == "start":
                container.start()
                return 204, None
            if words[2] in ("stop", "kill", "restart"):
                container.stop(signal.SIGKILL if words[2] == "kill" else signal.SIGTERM)
                if words[2] == "restart":
                    container.start()
                return 204, None
        raise KeyError("page not found")


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """HTTP on a unix socket."""

    daemon_threads = True


def dockerd():
    """The engine, until systemd ends it. Containers live on, as with live-restore."""
    Handler.engine = Engine()
    signal.signal(signal.SIGHUP, lambda *_arguments: Handler.engine.reload())
    signal.signal(signal.SIGTERM, lambda *_arguments: sys.exit(0))
    if os.path.exists(SOCKET):
        os.unlink(SOCKET)
    server = Server(SOCKET, Handler)
    os.chmod(SOCKET, 0o660)
    notify("READY=1")
    server.serve_forever()


def containerd():
    """Nothing to do: the stand-in engine starts its containers itself."""
    notify("READY=1")
    signal.pause()


def ask(method, path, body=None):
    """An answer of the engine. Ends with its message, as the client does."""
    connection = HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.sock.connect(SOCKET)
    except OSError:
        sys.exit("Cannot connect to the Docker daemon at unix://{0}. Is the docker daemon running?".format(SOCKET))
    connection.request(method, path, body)
    answer = connection.getresponse()
    text = answer.read()
    content = json.loads(text) if text else None
    if answer.status >= 400:
        sys.exit("Error response from daemon: {0}".format(content["message"]))
    return content


def rendered(template, content):
    """The little of Go's templates that is used: a field, its JSON, and an if."""

    def replace(match):
        value = content
        for part in match.group(2).split("."):
            value = value[part]
        if match.group(1) == "if ":
            return rendered(match.group(3), content) if value else ""
        return json.dumps(value) if match.group(1) == "json " else str(value)

    return TEMPLATE.sub(replace, template)


def show(content, options):
    print(rendered(options["format"], content) if options.get("format") else json.dumps(content, indent=4))


def parsed(words, flags=("rm", "quiet", "q", "all", "a")):
    """Options and the words behind them. An option that may come more than once is a list."""
    options, rest = {}, list(words)
    while rest and rest[0].startswith("-"):
        name, sign, value = rest.pop(0).lstrip("-").partition("=")
        if name in flags:
            options[name] = True
            continue
        value = value if sign else rest.pop(0)
        if name in ("env", "volume", "filter", "device", "ulimit", "add-host"):
            options.setdefault(name, []).append(value)
        else:
            options[name] = value
    return options, rest


def run_in_foreground(words):
    """docker run --rm: the container is this process."""
    options, (reference, *arguments) = parsed(words)
    image = ask("GET", "/images/{0}/json".format(urllib.parse.quote(reference, safe="")))
    environment = list(options.get("env", []))
    if "env-file" in options:
        with open(options["env-file"]) as file:
            environment += [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]
    identity = hashlib.sha256(os.urandom(32)).hexdigest()
    entrypoint = [options["entrypoint"]] if "entrypoint" in options else image["Config"].get("Entrypoint") or []
    command = command_of(
        options.get("name", identity[:12]),
        image,
        entrypoint + arguments,
        environment_of(image, environment),
        options.get("volume", []),
        options.get("add-host", []),
        options.get("user", ""),
    )
    enter_cgroup(identity)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.execvp(command[0], command)


def docker(words):
    """The client."""
    verb, *words = words
    if verb in ("container", "image") and words:
        verb, words = verb + " " + words[0], words[1:]
    if verb == "run":
        run_in_foreground(words)
    options, words = parsed(words)
    if verb == "version":
        version = ask("GET", "/version")
        show({"Client": version, "Server": version}, options)
    elif verb == "info":
        show(ask("GET", "/info"), options)
    elif verb in ("inspect", "container inspect", "image inspect"):
        kind = "images" if verb == "image inspect" else "containers"
        found = [ask("GET", "/{0}/{1}/json".format(kind, urllib.parse.quote(name, safe=""))) for name in words]
        for one in found if options.get("format") else [found]:
            show(one, options)
    elif verb in ("ps", "container ls"):
        filters = {}
        for word in options.get("filter", []):
            filters.setdefault(word.partition("=")[0], []).append(word.partition("=")[2])
        question = {"filters": json.dumps(filters), "all": "1" if {"a", "all"} & set(options) else "0"}
        for one in ask("GET", "/containers/json?" + urllib.parse.urlencode(question)):
            print(one["Id"][:12])
    elif verb == "logs":
        content = ask("GET", "/containers/{0}/json".format(words[-1]))
        with open(content["LogPath"], errors="replace") as file:
            sys.stdout.write("".join(file.readlines()[-int(options.get("tail", 0)) :]))
    elif verb == "restart":
        for name in words:
            ask("POST", "/containers/{0}/restart".format(name))
            print(name)
    elif verb == "exec":
        content = ask("GET", "/containers/{0}/json".format(words[0]))
        environment = content["Config"]["Env"] + options.get("env", [])
        uid, gid = numbers_of(content["Config"]["User"])
        command = [
            "nsenter",
            "--target",
            str(content["State"]["Pid"]),
            "--mount",
            "--root",
            "--setuid=" + uid,
            "--setgid=" + gid,
            "env",
            "-i",
            *environment,
            *words[1:],
        ]
        os.execvp(command[0], command)
    else:
        sys.exit("docker: '{0}' is not a docker command of this stand-in.".format(verb))


if __name__ == "__main__":
    program = os.path.basename(sys.argv[0])
    if program == "docker":
        docker(sys.argv[1:])
    else:
        {"dockerd": dockerd, "containerd": containerd}[program]()
