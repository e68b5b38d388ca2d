#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gather
short_description: All that the roles want to know of a host, in one go
version_added: 0.1.0
description:
  - Reads the system, the GPUs, the network, memory and clock, listeners and foreign programs, disks, firewall and engine of a host.
  - Reads C(/sys), C(/proc) and the kernel itself; C(ip), C(ethtool) and Docker's client need not be installed. What a host does not have
    is empty or V(null), never a failure.
  - The controller reads from the bundle what is still to come to the disks, and measures how far the host's clock is off from its own.
  - Changes nothing.
options:
  gpu_sysfs_root:
    description: Where the GPUs and the NVSwitches are looked for. Left out, O(sysfs_root).
    type: path
  state_file:
    description: A file on the host with JSON, in which earlier runs noted what they decided about the network.
    type: path
  may_be_silent:
    description: Whether a host that does not answer is no failure; C(said) is why, then, and M(baremetal.llm.deployment_members) judges it.
    type: bool
    default: false
  records_dir:
    description: Where roles keep records of what they left on the host. Left out, none is looked at.
    type: path
  lock_file:
    description: The file with which M(baremetal.llm.host_lock) keeps other runs away. Left out, it is not looked at.
    type: path
  bundle:
    description: Folder of the bundle on the controller. Left out or empty, no disk is measured.
    type: path
  models:
    description: The models that the host needs. Other models of the bundle do not come to it.
    type: list
    elements: str
    default: []
  host_dir:
    description: The directory on the host that takes the bundle's files and the models.
    type: path
    default: /opt/llm
  deployment_dir:
    description:
      - The directory on the host of what belongs to its deployment alone, secrets and records among it. Left out, O(host_dir); it is another one where
        the machine has several deployments.
    type: path
  probe_state:
    description: What the probe of the deployment noted.
    type: path
    default: /run/llm-probe/state.json
  docker_root:
    description: The engine's data root. Left out or empty, the host's C(daemon.json) says it, else it is C(/var/lib/docker).
    type: path
  python_environment:
    description:
      - Whether the Python environment is looked at from which the host serves, or the one on which its environment is made. The action plugin
        fills in O(python), O(package) and O(base_python) then, by the settings of the host's engine.
    type: bool
    default: false
  python:
    description: The interpreter of a Python environment from which the host serves. Left out or empty, none is looked at.
    type: path
  package:
    description: The Python package of the engine.
    type: str
  base_python:
    description: The interpreter on which the host's own Python environment is made. Left out or empty, none is looked at.
    type: path
  secrets_dir:
    description:
      - Folder on the controller for secrets. With it RV(ansible_facts.llm_secrets) says which of those of the host the controller knows.
    type: path
  challenge:
    description: Internal. With what the host's secrets are sealed, so that their values stay there. Left out, none is looked at.
    type: str
  discover:
    description: Whether RV(ansible_facts.llm_discovered) is looked for, which takes some seconds.
    type: bool
    default: false
  reach:
    description: With O(discover), addresses (C(HOST) or C(HOST:PORT)) to which the host tries a connection.
    type: list
    elements: str
    default: []
  live:
    description:
      - What RV(ansible_facts.llm_live) is asked with. Left out, it is not looked for. A host that does not answer is no failure then.
    type: dict
    suboptions:
      suffix:
        description: What the names of the deployment's containers and units end with, where the machine has several.
        type: str
        default: ""
      head:
        description: Whether the server of a deployment runs here, and is asked for its figures.
        type: bool
        default: false
      figures:
        description: What the figures of a server are called here, by the names that engines have for them. The action plugin fills in all of them.
        type: dict
      addresses:
        description: Variables that tell a server the address of its host. The action plugin fills in all of them.
        type: list
        elements: str
        default: []
      port:
        description: The port of the server, where neither its probe nor its container say where it answers. The action plugin fills in that of the inventory.
        type: int
        default: 8000
      probe_state:
        description: What the probe of the deployment noted.
        type: path
        default: /run/llm-probe/state.json
      models_dir:
        description: The folder of the models.
        type: path
        default: /opt/llm/models
      places:
        description: More folders whose disks are measured.
        type: list
        elements: path
        default: []
      certificates:
        description: Files on the host whose certificates are read, without the keys that may stand beside them.
        type: list
        elements: path
        default: []
      series:
        description: What a Prometheus on the host is asked, as C(queries) by name, C(seconds) and C(step).
        type: dict
      causes:
        description: Whether logs of what is not well are read, and Ray is asked what waits there.
        type: bool
        default: false
      verify_weights:
        description: Whether all files of the models are read and compared with the hashes with which they arrived.
        type: bool
        default: false
  needs:
    description: Internal. What the bundle puts on the host's disks.
    type: list
    elements: dict
    default: []
    suboptions:
      directory:
        description: Where it goes. V({docker_root}) stands for the engine's data root, here and in O(needs[].marks).
        type: str
        required: true
      bytes:
        description: Its size.
        type: int
        required: true
      name:
        description: The file's name. A file of this name and size anywhere below the directory is the one that is needed.
        type: str
        default: ""
      marks:
        description: Groups of paths. When of each group one path exists, nothing is needed any more.
        type: list
        elements: list
        default: []
extends_documentation_fragment:
  - baremetal.llm.sysfs
  - baremetal.llm.attributes.linux
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.facts
  - baremetal.llm.attributes.controller_part
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
seealso:
  - module: baremetal.llm.gpu_facts
"""

EXAMPLES = r"""
- name: Host | Gather what is there
  baremetal.llm.gather:
    bundle: "{{ llm_bundle_dir }}"
    models: ["{{ vllm_model }}"]

- name: Host | Show who listens on the port of the API
  ansible.builtin.debug:
    msg: "{{ ansible_facts['llm_host'].listeners | selectattr('port', 'equalto', 8000) }}"

- name: Host | Show the interfaces that are up
  ansible.builtin.debug:
    msg: "{{ ansible_facts['llm_nics_found'] | selectattr('up') | map(attribute='name') }}"
"""

RETURN = r"""
ansible_facts:
  description: Facts for later tasks, among them those of M(ansible.builtin.setup) with C(gather_subset=min).
  returned: always
  type: dict
  contains:
    llm_gpu:
      description:
        - The GPUs and the driver, as RV(baremetal.llm.gpu_facts#module:gpu_facts) holds them.
        - Besides, C(bus) has every GPU on the PCI bus with its C(bus_id), the C(kernel_driver) that the kernel has bound to it, whether the firmware gave its
          memory no addresses (C(window_missing)), the kind of its group in the IOMMU (C(iommu)), the bridges above it that redirect (C(redirecting)), and its
          C(numa_node).
        - C(xids) has the errors of cards that the driver logged since the boot, each with C(time), C(bus_id), C(xid) and the C(action) that it asks for;
          V(null) without a card or a journal. C(kernel_log) has what else it said, where it does not drive all cards.
      type: dict
    llm_gpus_found:
      description: The list C(gpus) of RV(ansible_facts.llm_gpu).
      type: list
      elements: dict
    llm_gpu_p2p:
      description: The dictionary C(p2p) of RV(ansible_facts.llm_gpu).
      type: dict
    llm_gpu_fabric:
      description: The dictionary C(fabric) of RV(ansible_facts.llm_gpu).
      type: dict
    llm_nics_found:
      description:
        - The interfaces by name, each with C(name), C(addresses) (IPv4 first, with prefix length), C(speed_mbps), C(mtu),
          C(operstate), C(up), C(kind) (V(ethernet), V(infiniband), V(wlan), V(bond), V(bridge), V(vlan), V(tun), V(tunnel),
          V(loopback) or V(other)), C(driver), C(wireless), C(virtual) (no device behind it), C(master) (the bond or
          bridge that it belongs to), C(members) (what belongs to it), C(aggregator) (of a link of a bond with LACP, the group that it is in) and C(rdma)
          (active RDMA ports that it leads to).
          What is not known is V(null).
      type: list
      elements: dict
    llm_rdma_found:
      description:
        - The ports of the RDMA devices, each with C(device), C(port), C(state), C(active), C(link_layer) (V(InfiniBand) or
          V(Ethernet)), C(rate_gbps), C(interface), C(numa_node) and C(gids), each of these with C(index), C(gid), C(type) and C(interface).
      type: list
      elements: dict
    llm_dynamic_ports:
      description: The C(first) and C(last) of the ports that the kernel gives to programs that ask for any.
      type: dict
      sample: {"first": 32768, "last": 60999}
    llm_ssh_ports:
      description: The ports through which logins come in, those of sshd, or of systemd in its place, and that of the current login.
      type: list
      elements: int
      sample: [22]
    llm_foreign_ports:
      description:
        - Which of the dynamic ports programs hold that listen to other hosts, run in no container of this collection, and are no
          listeners of an interrupted connectivity check.
      type: list
      elements: int
      sample: [49152]
    llm_memory_mib:
      description: The host's memory.
      type: int
      sample: 515680
    llm_host:
      description: What can stand in the way of serving a model.
      type: dict
      contains:
        kernel:
          description: Release of the kernel.
          type: str
          sample: 6.1.0-18-amd64
        memory:
          description: The C(total_mib), C(available_mib), C(swap_mib) and C(hugepages_mib), which are kept back for programs that ask for them.
          type: dict
          sample: {"total_mib": 515680, "available_mib": 498000, "swap_mib": 0, "hugepages_mib": 0}
        shm_mib:
          description: Size of C(/dev/shm).
          type: int
          sample: 257840
        clock:
          description:
            - How many seconds the host's clock is ahead of the controller's (C(offset_seconds)), and how uncertain that is
              (C(uncertainty_seconds)), which depends on how long question and answer were under way.
          type: dict
          sample: {"offset_seconds": 0.02, "uncertainty_seconds": 0.4}
        name:
          description: The host's own C(name), and the C(addresses) that it stands for.
          type: dict
          sample: {"name": "gpu01", "addresses": ["10.0.0.1"]}
        selinux:
          description: V(enforcing), V(permissive) or V(disabled).
          type: str
          sample: disabled
        engine:
          description:
            - How Docker came to the host (C(installed_by), V(packages), V(static), V(snap) or empty), what its command line says (C(flags), by the directive
              of C(daemon.json) with what is C(said) and the C(path) of the file that says so), the content of C(daemon.json) (C(config)), runtimes in it whose
              program is not there (C(missing_runtimes)), and what it says of itself, as far as it runs.
          type: dict
          sample: {"installed_by": "packages", "flags": {}, "config": {"live-restore": true}, "version": "28.5.1", "swarm": "inactive"}
        packages:
          description: Versions of installed packages that a container engine or the building of modules depends on, and those of them that are C(held).
          type: dict
          sample: {"containerd": "1.6.20"}
        packages_broken:
          description: Packages of whatever kind whose installation was interrupted.
          type: list
          elements: str
          sample: []
        packages_readable:
          description: Whether the program that lists packages lists any; V(null) where there is no such program.
          type: bool
        units:
          description: The state of the units of engines, of Kubernetes and of NVIDIA's services that are there, and as C(masked) those that nobody can start.
          type: dict
          sample: {"containerd.service": "active"}
        mounts:
          description:
            - Of the folders that matter (C(path)) where the file system is mounted (C(mount)), its C(type) and C(options), with xfs whether it keeps
              the types of files (C(ftype)), the type in the folder's SELinux label (C(label)), and whether a cloud takes the disk away when the machine is
              switched off (C(temporary)).
          type: list
          elements: dict
          sample: [{"path": "/tmp", "mount": "/tmp", "type": "tmpfs", "options": ["rw"], "ftype": null, "label": "", "temporary": false}]
        unmounted:
          description: Where file systems of C(/etc/fstab) belong that are mounted at boot, and are not.
          type: list
          elements: str
          sample: []
        shares_silent:
          description: Where shares are mounted whose server does not answer; none of them is looked at any further.
          type: list
          elements: str
          sample: []
        boot_stops:
          description: Those of them without which the next boot stops; shares and what has the option C(nofail) are none.
          type: list
          elements: str
          sample: []
        boot_passphrases:
          description: Encrypted disks of C(/etc/crypttab) for which somebody has to type a passphrase at boot.
          type: list
          elements: str
          sample: []
        dkms_broken:
          description: Folders of dkms without the source of their module.
          type: list
          elements: str
          sample: []
        routes:
          description: Each C(network) that leads somewhere, by which C(interface), the default route aside.
          type: list
          elements: dict
          sample: [{"network": "10.0.0.0/24", "interface": "eth0"}]
        ssh_client:
          description: Where the controller comes from, as the host sees it; empty where it does not come by ssh.
          type: str
          sample: 10.0.0.250
        modules:
          description: Which of the kernel's modules that matter are loaded.
          type: list
          elements: str
          sample: [nvidia, overlay]
        secure_boot:
          description:
            - Whether the firmware allows signed modules only. Then C(module) has the C(path) of the driver's module, its C(signer), and whether that
              is C(known).
          type: bool
        kernels:
          description: The kernels that have modules on disk, and for each whether the driver's module is among them.
          type: dict
          sample: {"6.1.0-40-amd64": true, "6.1.0-41-amd64": false}
        boot:
          description: Where C(/boot) is a file system of its own, how much room it has (C(mount), C(free_mib)).
          type: dict
          sample: {"mount": "/boot", "free_mib": 210}
        driver_packages:
          description: Versions of the driver's packages, and as C(driver_held) those of them that are held, or left out of automatic upgrades.
          type: dict
          sample: {"libnvidia-compute-570": "570.195.03-0ubuntu1"}
        automatic_upgrades:
          description: Whether packages are renewed without anybody asking for it.
          type: bool
        apparmor:
          description: Whether the kernel confines programs by profiles (C(enabled)), and whether the program is there that loads them (C(parser)).
          type: dict
          sample: {"enabled": false, "parser": true}
        storage:
          description:
            - What is mounted, or used as a disk, over the network, with C(kind), the address of the C(server), the C(mount) or the disk, and whether it
              uses C(rdma).
          type: list
          elements: dict
          sample: [{"kind": "nfs4", "server": "10.55.0.200", "mount": "/data", "rdma": true}]
        fabric_manager:
          description: Version of NVIDIA's fabric manager; empty where there is none.
          type: str
        kernel_gcc:
          description: >-
            The major release of the gcc that made the kernel, and as C(gcc) that of the host's own; as C(kernel_clang) and C(clang) the same of clang.
            Empty where it is not known.
          type: str
          sample: "12"
        cgroup:
          description: The version of control groups.
          type: int
          sample: 2
        container:
          description: The kind of container that the host is (V(lxc), V(docker)), empty for a machine.
          type: str
          sample: ""
        machine_id:
          description: A digest of the identity in C(/etc/machine-id).
          type: str
          sample: 3f1c0a5e9b7d2c44
        kernel_settings:
          description: Settings of the kernel that matter, and as C(lockdown) how far it is locked down, as C(numa_nodes) how many nodes it has.
          type: dict
          sample: {"kernel.modules_disabled": 0, "kernel.numa_balancing": 1}
        neighbours:
          description: How many addresses of hosts in its networks the kernel keeps.
          type: int
          sample: 12
        ports_handed_out:
          description: The C(first) and the C(last) port that the kernel gives to connections that go out, and which of them are C(reserved).
          type: dict
          sample: {"first": 32768, "last": 60999, "reserved": ""}
        immutable:
          description: Files and folders that packages and roles change, and that have an attribute against that (C(chattr)).
          type: list
          elements: str
          sample: []
        cpu_missing:
          description: Which instructions the processor lacks of those that engines use.
          type: list
          elements: str
          sample: [avx2]
        cpus:
          description: How many processors are on, and as C(cpus_isolated) the numbers of those that the scheduler leaves alone.
          type: int
          sample: 128
        blocked_modules:
          description: >-
            What keeps modules of the driver from being loaded, with C(module), what is C(said), the C(path) of the file, and whether it holds C(wholly).
          type: list
          elements: dict
          sample: []
        module_options:
          description: The options with which they are loaded, with what is C(said) and the C(path) of the file.
          type: list
          elements: dict
          sample: []
        resolver:
          description: The C(nameservers) and the C(search) domains of C(/etc/resolv.conf), and where a link that leads nowhere leads to (C(missing)).
          type: dict
          sample: {"nameservers": ["10.0.0.53"], "search": [], "missing": ""}
        docker_helper:
          description: >-
            The C(program) in which Docker's client of root keeps passwords, and the C(path) of the file that says so, where that program is not there.
          type: dict
          sample: {}
        udev_removes:
          description: Rules of udev that take GPUs off the bus, with what is C(said) and the C(path) of the file.
          type: list
          elements: dict
          sample: []
        realtime:
          description: Whether the kernel is one of real time.
          type: bool
        clocksource:
          description: What the kernel reads the time from.
          type: str
          sample: tsc
        cpu_frequency:
          description: The C(driver) and the C(governor) that decide how fast the first processor runs; empty where the firmware does.
          type: dict
          sample: {"driver": "intel_pstate", "governor": "powersave"}
        environment_proxy:
          description: The C(proxy) in C(/etc/environment), and what it is not for (C(no_proxy)); empty where there is none.
          type: dict
          sample: {}
        toolkit_settings:
          description: What the settings of NVIDIA's container toolkit say, by section and name.
          type: dict
          sample: {"disable-require": "false", "nvidia-container-cli.load-kmods": "true"}
        toolkit_ldconfig_missing:
          description: The program C(ldconfig) of the host that these settings name, where it is not there.
          type: str
          sample: ""
        driver_libraries:
          description: Of the driver's libraries those that programs get (C(name), C(path), and the C(version) of the driver that they belong to).
          type: list
          elements: dict
          sample: [{"name": "libcuda.so.1", "path": "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "version": "570.195.03"}]
        package_sources:
          description: >-
            The repositories that apt or dnf knows, each with C(path), C(url), C(suite) (of dnf the name), C(signed_by) and C(key_missing), the new key of a
            publisher of whom the host has the former one alone.
          type: list
          elements: dict
          sample: []
        package_sources_malformed:
          description: Lines of apt's files of repositories that are no entries, with what is C(said) and the C(path) of the file.
          type: list
          elements: dict
          sample: []
        package_proxies:
          description: Proxies that apt or dnf asks, with what is C(said) and the C(path) of the file.
          type: list
          elements: dict
          sample: []
        package_excludes:
          description: Packages that apt or dnf is told to leave alone, with what is C(said) and the C(path) of the file.
          type: list
          elements: dict
          sample: []
        package_locks:
          description: Packages that dnf keeps at one version, with C(name), C(version) and the C(path) of the file.
          type: list
          elements: dict
          sample: []
        apt:
          description: Whether a Python that Ansible tries has the module of apt; V(null) where nobody can say.
          type: bool
          sample: true
        packet_filters:
          description:
            - The tables of the old packet filter (C(legacy)), which one the C(program) iptables writes into, V(nf_tables) or V(legacy), and what C(firewalld)
              writes with, as its settings say it.
            - What C(refuses) packets that no rule lets in, a rule, a policy or a chain of nftables, and the networks that the same rules let in (C(lets_in)).
          type: dict
          sample: {"legacy": [], "program": "nf_tables", "refuses": "", "lets_in": [], "firewalld": "nftables"}
        automatic_reboot:
          description: Whether the host may reboot after packages were renewed.
          type: bool
        clock_synchronized:
          description: Whether something sets the clock; V(null) where systemd does not know.
          type: bool
        python:
          description: The release of the Python that answered, and as C(dnf) whether it has the modules of that program.
          type: str
          sample: 3.11.2
        listeners:
          description: Who listens on ports of TCP, with C(port), C(pid), C(process), C(command) and C(container), the container's name.
          type: list
          elements: dict
          sample: []
        services:
          description: Processes that serve models or belong to Ray, with C(service), C(pid), C(process), C(command) and C(container).
          type: list
          elements: dict
          sample: []
        gpu_processes:
          description: Processes on the GPUs, with C(pid), C(process), C(used_mib) and C(container).
          type: list
          elements: dict
          sample: []
    llm_disks:
      description:
        - The file systems to which something of the bundle comes, each with C(mount), C(available_bytes) (free for everybody),
          C(total_bytes), C(free_inodes) (files that can still be made), C(needed_bytes) (still to come to it) and C(needs) (the same per directory).
        - Directories that do not exist yet count for the file system on which they would be made, and what is there already is
          not needed a second time.
      type: list
      elements: dict
      sample:
        - mount: /
          available_bytes: 1234567890
          total_bytes: 9234567890
          free_inodes: 61000000
          needed_bytes: 234567890
          needs: {"/opt/llm": 234567890}
    llm_firewall:
      description:
        - C(firewalld) says whether it is C(running), and what C(firewall-cmd) prints as C(default_zone) and as C(zones) (all, with what
          is in them). C(ufw) says whether it is C(enabled), and its C(default_input), V(DROP), V(REJECT) or V(ACCEPT); empty where there
          is none.
      type: dict
      sample: {"firewalld": {"running": false, "default_zone": "", "zones": ""}, "ufw": {"enabled": true, "default_input": "DROP"}}
    llm_network_state:
      description: What O(state_file) holds; empty where there is none, or none that can be read.
      type: dict
    llm_probe:
      description:
        - What the probe of the head says of the server, its C(kind) and the line for people (C(said)), how many C(starts) brought no token,
          and C(causes), lines of their log. Empty where there is no probe, or no state that can be read.
      type: dict
      sample: {"kind": "serving", "said": "serving", "starts": 0, "causes": []}
    llm_records:
      description:
        - The records below O(records_dir) by role, each with what it was made from (C(digest), C(collection)) and what of it C(differs) now,
          each as kind and subject. One that somebody else could have written, or that cannot be read, is not there.
        - Only returned with O(records_dir).
      type: dict
      sample:
        docker: {"digest": "3a7b…", "collection": "91be…", "differs": ["paths /etc/systemd/system/docker.service"]}
    llm_journal:
      description:
        - The last runs that took the host, the newest first - C(who), C(playbook), version of the C(collection), C(limit) and C(tags), C(begun) and
          C(ended) in seconds since 1970 by the host's clock (null where a run did not give the host back), and C(roles) whose records it wrote. Only
          returned with O(live) and O(lock_file).
      type: list
      elements: dict
    llm_lock:
      description:
        - Which run holds the host (M(baremetal.llm.host_lock)), or null, and how many runs have given it back. Only returned with O(lock_file).
      type: dict
      sample: {"format": 1, "given_back": 12, "holder": null}
    llm_secrets:
      description:
        - The secrets in the folder C(secrets) of O(deployment_dir), by file. V(same) as the controller's for this deployment, V(differs) from it,
          V(elsewhere) where the controller has it for another deployment, V(unknown) where the controller has none. Never a value.
      type: dict
      sample: {"ray_token": "same"}
    llm_environment:
      description:
        - The C(version) of the engine and that of Ray (C(ray), empty without Ray) in the environment of O(python), or the C(error) with which these could
          not be read. Only returned with O(python).
      type: dict
      sample: {"version": "0.11.0", "ray": "2.48.0"}
    llm_base_python:
      description:
        - The C(python) of O(base_python), as in 3.10, and the C(glibc) of the host, or the C(error) with which that could not be read. Only returned
          with O(base_python).
      type: dict
      sample: {"python": "3.10", "glibc": "2.35"}
    llm_made_environments:
      description:
        - What lies in the folder C(venvs) of O(host_dir), that is environments that M(baremetal.llm.venv) made, their wheels, and what runs left
          unfinished. Only returned with O(records_dir).
      type: list
      elements: str
      sample: [0.3.0-1f2e3d4c5b6a, 0.3.0-1f2e3d4c5b6a.wheels]
    llm_discovered:
      description:
        - Only returned with O(discover). C(versions) of Docker's engine (C(docker)) and the container toolkit (C(toolkit)), empty where there is none;
          the addresses of O(reach) that C(reached) take a connection; and C(models), the weights in folders in which people keep them, each with C(path),
          C(name), C(bytes), C(format) (V(safetensors), V(pytorch) or V(gguf)) and C(whole), whether no file is missing
          or cut off. C(complete) says whether all folders were searched in time.
        - C(disks) are the file systems of these folders and of the engine, each with C(path), C(available_bytes) and C(total_bytes).
      type: dict
    llm_live:
      description:
        - Only returned with O(live). C(containers) and C(units) of ours, with state, restarts and since when; C(server), what the engine counts
          (C(figures)) or the C(error); C(probe), what that found at its last look and how long ago (C(age)); C(disks) with bytes and inodes; C(xids), errors
          that the driver logged; C(versions), C(firmware) of network cards, C(models) (digests of their files), C(certificates),
          C(clock_synchronized), and C(series) of Prometheus. What could not be found out is V(null).
        - With O(live.causes) also C(logs) and C(pending), with O(live.verify_weights) also C(weights).
      type: dict
    llm_recorded:
      description: >-
        The containers and units that records below O(host_dir) name, those of all deployments. Only returned with O(records_dir).
      returned: success
      type: list
      elements: str
    llm_served:
      description:
        - What the deployment has served with (M(baremetal.llm.served)). C(states), the newest first, each with C(version), C(since), C(vllm_version),
          C(image) and C(models); C(returned), from which version it went back to the newest (C(version), C(image), C(at), C(reason)), or null; C(begun),
          a version (C(version), C(image), C(at)) that a run has begun to bring and that has not served yet, or null; and C(pins),
          what the deployments of the machine need to serve on or to go back, C(images) (ids), C(models) (folders) and C(environments).
        - Only returned with O(records_dir).
      type: dict
      sample: {"states": [], "returned": null, "begun": null, "pins": {"images": [], "models": [], "environments": []}}
    llm_server_units:
      description: The names of the units that run an engine or Ray without a container.
      type: list
      elements: str
      sample: [llm-ray, llm-vllm]
    llm_container_engine:
      description:
        - The engine's C(containers), each with C(id), C(name), C(image) and C(state), and C(images), each with C(id) and C(tags).
          V(null) where no engine answers.
      type: dict
"""

import glob
import os
import re
import time
from typing import Any, Mapping, Sequence

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.facts import default_collectors
from ansible.module_utils.facts.ansible_collector import get_ansible_collector
from ansible.module_utils.facts.namespace import PrefixFactNamespace
from ansible_collections.baremetal.llm.plugins.module_utils import _journal
from ansible_collections.baremetal.llm.plugins.module_utils._content import mapping, read_json, texts
from ansible_collections.baremetal.llm.plugins.module_utils._discover import disks, reached, versions, weights
from ansible_collections.baremetal.llm.plugins.module_utils._disks import measure_disks
from ansible_collections.baremetal.llm.plugins.module_utils._engine import read_engine, socket_below
from ansible_collections.baremetal.llm.plugins.module_utils._engines import ENGINES, PROBED
from ansible_collections.baremetal.llm.plugins.module_utils._environment import environments
from ansible_collections.baremetal.llm.plugins.module_utils._evidence import (
    Differs,
    Host,
    firewalld,
    recorded_names,
    verify_records,
)
from ansible_collections.baremetal.llm.plugins.module_utils._facts import Facts, Ufw
from ansible_collections.baremetal.llm.plugins.module_utils._gpu import facts_for_roles, kernel_log, read_gpus
from ansible_collections.baremetal.llm.plugins.module_utils._host import host_facts, parse_gpu_processes
from ansible_collections.baremetal.llm.plugins.module_utils._listeners import foreign_ports, ssh_ports
from ansible_collections.baremetal.llm.plugins.module_utils._live import Xid, look, xids
from ansible_collections.baremetal.llm.plugins.module_utils._lock import read_lock
from ansible_collections.baremetal.llm.plugins.module_utils._nics import nic_facts
from ansible_collections.baremetal.llm.plugins.module_utils._pci import bus_facts
from ansible_collections.baremetal.llm.plugins.module_utils._picture import image_root, picture
from ansible_collections.baremetal.llm.plugins.module_utils._proc import read
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs
from ansible_collections.baremetal.llm.plugins.module_utils._secrets import sealed_secrets
from ansible_collections.baremetal.llm.plugins.module_utils._served import NAME, pins, read_served, summary
from ansible_collections.baremetal.llm.plugins.module_utils._shares import apart, is_below

# As ansible.builtin.setup has it.
MINIMAL_SUBSET = frozenset(
    (
        *("apparmor", "caps", "cmdline", "date_time", "distribution", "dns", "env", "fips", "local", "lsb", "pkg_mgr"),
        *("platform", "python", "selinux", "service_mgr", "ssh_pub_keys", "user"),
    )
)
# A line for the engine, one for the program that it brings, which old releases have not, and one for Ray, which is empty where there is none.
VERSION_PROGRAM = """\
import importlib.metadata as found, sys
engine = found.distribution(sys.argv[1])
print(engine.version)
print(next((each.name for each in engine.entry_points if each.group == "console_scripts"), ""))
try:
    print(found.version("ray"))
except found.PackageNotFoundError:
    print()
"""
# Wheels with compiled code are for CPython of one release, and for glibc from one release on.
BASE_PROGRAM = """\
import json, platform, sys
if platform.python_implementation() != "CPython":
    raise SystemExit("it is no CPython, but " + platform.python_implementation())
print(json.dumps({"python": "{0}.{1}".format(*sys.version_info[:2]), "glibc": platform.libc_ver()[1]}))
"""
GPU_PROCESSES = ["--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader,nounits"]


def system(module: AnsibleModule) -> dict[str, object]:
    """What ansible.builtin.setup tells with gather_subset=min."""
    collector = get_ansible_collector(
        all_collector_classes=default_collectors.collectors,
        # Some collectors read what others found, under this prefix.
        namespace=PrefixFactNamespace(namespace_name="ansible", prefix="ansible_"),
        gather_subset=["!all"],
        minimal_gather_subset=MINIMAL_SUBSET,
    )
    found: dict[str, object] = collector.collect(module=module)
    return found


def network(
    sysfs_root: str, proc_root: str = "/proc", addresses: Mapping[int, Sequence[str]] | None = None, root: str = "/"
) -> Facts:
    """Interfaces and RDMA devices, and who listens."""
    found = nic_facts(sysfs_root, proc_root, addresses)
    dynamic = found["dynamic_ports"]
    return {
        "llm_nics_found": found["interfaces"],
        "llm_rdma_found": found["rdma"],
        "llm_dynamic_ports": dynamic,
        "llm_ssh_ports": ssh_ports(proc_root),
        "llm_foreign_ports": foreign_ports(dynamic["first"], dynamic["last"], proc_root, socket_below(root)),
    }


def ufw(settings: str = "/etc/ufw/ufw.conf", defaults: str = "/etc/default/ufw") -> Ufw:
    policy = re.search(r"^DEFAULT_INPUT_POLICY=\"?(\w+)", read(defaults), re.M)
    enabled = bool(re.search(r"^ENABLED=yes", read(settings), re.M))
    return {"enabled": enabled, "default_input": policy.group(1) if policy else ""}


def network_state(path: str) -> dict[str, object]:
    """What earlier runs decided about the network."""
    try:
        state = read_json(read(path))
    except ValueError:
        return {}
    return state if isinstance(state, dict) else {}


def probe_state(path: str) -> dict[str, object]:
    """What the probe says of the server; it keeps more."""
    try:
        state = read_json(read(path))[PROBED]
        return {name: state[name] for name in ("kind", "said", "starts", "causes")}
    except (ValueError, KeyError, TypeError):
        return {}


def said_by(python: str, program: str, programs: Programs, *words: str) -> tuple[str, str]:
    """What an interpreter prints when it runs a program, and the reason why it ended with an error; one of the two is empty."""
    if not os.access(python, os.X_OK):
        return "", "no such program"
    status, out, err = programs.run([python, "-I", "-c", program, *words])
    return ("", last_line(err or out, status)) if status or not out.strip() else (out, "")


def last_line(text: str, status: int) -> str:
    """Python's reason is the last line of what it says."""
    return (text.strip().splitlines() or ["it ends with status {0}".format(status)])[-1]


def environment(python: str, package: str, programs: Programs) -> dict[str, str]:
    """The releases of the engine and Ray in an environment, from their metadata: to import them takes seconds."""
    out, error = said_by(python, VERSION_PROGRAM, programs, package)
    version, name, ray = (*out.splitlines(), "", "", "")[:3]
    if not version:
        return {"error": error or last_line(out, 0)}
    program = os.path.join(os.path.dirname(python), name)
    if name and not os.access(program, os.X_OK):
        return {"error": "no program {0}".format(program)}
    return {"version": version, "ray": ray}


def base_python(python: str, programs: Programs) -> dict[str, str]:
    """What decides which wheels an environment on this interpreter takes."""
    out, error = said_by(python, BASE_PROGRAM, programs)
    try:
        found = read_json(out)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"error": error or last_line(out, 0)}


# As plugin_utils/deployment/unit.py begins each unit.
MADE = "# Made by baremetal.llm: changes are overwritten."


def server_units(folder: str = "/etc/systemd/system") -> list[str]:
    """Those of the collection that run an engine or Ray without a container, without their .service. Others may have such names, too."""
    found = [
        path for kind in (*ENGINES, "ray") for path in glob.glob(os.path.join(folder, "llm-{0}*.service".format(kind)))
    ]
    return sorted(os.path.basename(path)[: -len(".service")] for path in found if first_line(path) == MADE)


def first_line(path: str) -> str:
    """Of a file; empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.readline().strip()
    except OSError:
        return ""


def gather(
    options: dict[str, Any],
    programs: Programs,
    root: str = "/",
    addresses: Mapping[int, Sequence[str]] | None = None,
) -> Facts:
    """All of it. Tests have the files of a host below another ``root``, and its ``addresses`` by the index of the interface."""
    sysfs_root, proc_root = options["sysfs_root"], os.path.join(root, "proc")
    gpu_sysfs_root = options["gpu_sysfs_root"] or sysfs_root
    gpus, bus = read_gpus(programs, gpu_sysfs_root, proc_root, root), bus_facts(gpu_sysfs_root)
    logged = xids(programs) if bus or options["live"] else None
    silent = bus and (gpus["source"] != "nvidia-smi" or gpus["problems"])
    engine = read_engine(socket_below(root))
    containers = {entry["id"]: entry["name"] for entry in (engine or {"containers": []})["containers"]}
    processes = parse_gpu_processes(programs.answer("nvidia-smi", *GPU_PROCESSES))
    runs = host_facts(proc_root, sysfs_root, containers, processes)
    host = picture(programs, sysfs_root, options["host_dir"], options["docker_root"] or "", proc_root, root)
    docker_root = options["docker_root"] or host["engine"]["data_root"] or "/var/lib/docker"
    no_answer = host["shares_silent"]
    needs = [need for need in options["needs"] if not is_below(str(need["directory"]), no_answer)]
    return {
        **facts_for_roles(gpus),
        **network(sysfs_root, proc_root, addresses, root),
        "llm_gpu": {
            **gpus,
            "bus": bus,
            "xids": logged if bus else None,
            "kernel_log": kernel_log(programs) if silent else [],
        },
        "llm_memory_mib": runs["memory"]["total_mib"],
        "llm_host": {**runs, **host},
        "llm_disks": measure_disks(needs, image_root(host["engine"], docker_root)),
        "llm_firewall": {
            "firewalld": firewalld(programs),
            "ufw": ufw(os.path.join(root, "etc/ufw/ufw.conf"), os.path.join(root, "etc/default/ufw")),
        },
        "llm_network_state": network_state(options["state_file"] or ""),
        "llm_container_engine": engine,
        "llm_server_units": server_units(os.path.join(root, "etc/systemd/system")),
        "llm_probe": probe_state(options["probe_state"]),
        **discovered(options, programs, no_answer),
        **living(options, programs, docker_root, logged, no_answer),
        **of_environments(options, programs),
        **of_earlier_runs(options, Host(programs, gpus)),
    }


def discovered(options: Mapping[str, object], programs: Programs, no_answer: Sequence[str]) -> Facts:
    """What is asked of a host that no inventory describes yet."""
    if not options["discover"]:
        return {}
    there = reached(texts(options["reach"]))
    models, space = weights(shares_silent=no_answer), disks(shares_silent=no_answer)
    return {"llm_discovered": {"versions": versions(programs), "reached": there, "disks": space, **models}}


def living(
    options: dict[str, Any], programs: Programs, docker_root: str, logged: list[Xid] | None, no_answer: Sequence[str]
) -> Facts:
    """What runs at this moment, where it is asked for; ``logged`` are the errors of cards, ``no_answer`` shares that are not looked at."""
    asked = options["live"]
    if not asked:
        return {}
    # Of a deployment without some of its hosts, another one may be the head.
    remembered = mapping(network_state(options["state_file"] or "").get("absent"))
    head = asked["head"] or bool(remembered.get("hosts"))
    places = apart([docker_root, options["host_dir"], *asked["places"]], no_answer)
    return {"llm_live": look({**asked, "head": head, "places": places}, programs, logged)}


def of_environments(options: dict[str, Any], programs: Programs) -> Facts:
    """What is asked about Python. As below, a later call that asks for less takes nothing back."""
    found: Facts = {}
    if options["python"]:
        found["llm_environment"] = environment(options["python"], options["package"] or "", programs)
    if options["base_python"]:
        found["llm_base_python"] = base_python(options["base_python"], programs)
    return found


def of_earlier_runs(options: dict[str, Any], host: Host) -> Facts:
    """What runs left on the host, as far as it is asked for: a later call that asks for less takes nothing back of what is known."""
    found: Facts = {}
    if options["lock_file"]:
        found["llm_lock"] = read_lock(options["lock_file"])
    if options["lock_file"] and options["live"]:
        found["llm_journal"] = _journal.read(_journal.path_beside(options["lock_file"]))
    if options["records_dir"]:
        found["llm_records"] = records(options, host)
        found["llm_recorded"] = recorded_names(options["host_dir"])
        served = read_served(os.path.join(deployment_dir(options), NAME))
        found["llm_served"] = {**summary(served), "pins": pins(options["host_dir"])}
        found["llm_made_environments"] = environments(os.path.join(options["host_dir"], "venvs"))
    return found


def records(options: Mapping[str, object], host: Host) -> dict[str, Differs]:
    """The records of the machine, and of the deployment where they lie elsewhere."""
    found = verify_records(str(options["records_dir"]), host)
    own = os.path.join(deployment_dir(options), "records")
    return found if own == options["records_dir"] else {**found, **verify_records(own, host)}


def deployment_dir(options: Mapping[str, object]) -> str:
    return str(options["deployment_dir"] or options["host_dir"])


def main() -> None:
    """Read, and return what was read."""
    started = time.monotonic()
    module = AnsibleModule(
        argument_spec={
            "gpu_sysfs_root": {"type": "path"},
            "sysfs_root": {"type": "path", "default": "/sys"},
            "state_file": {"type": "path"},
            "may_be_silent": {"type": "bool", "default": False},
            "records_dir": {"type": "path"},
            "lock_file": {"type": "path"},
            "bundle": {"type": "path"},
            "models": {"type": "list", "elements": "str", "default": []},
            "host_dir": {"type": "path", "default": "/opt/llm"},
            "deployment_dir": {"type": "path"},
            "probe_state": {"type": "path", "default": "/run/llm-probe/state.json"},
            "docker_root": {"type": "path"},
            "discover": {"type": "bool", "default": False},
            "live": {
                "type": "dict",
                "options": {
                    "suffix": {"type": "str", "default": ""},
                    "head": {"type": "bool", "default": False},
                    "port": {"type": "int", "default": 8000},
                    "probe_state": {"type": "path", "default": "/run/llm-probe/state.json"},
                    "models_dir": {"type": "path", "default": "/opt/llm/models"},
                    "places": {"type": "list", "elements": "path", "default": []},
                    "certificates": {"type": "list", "elements": "path", "default": []},
                    "series": {"type": "dict"},
                    "figures": {"type": "dict"},
                    "addresses": {"type": "list", "elements": "str", "default": []},
                    "causes": {"type": "bool", "default": False},
                    "verify_weights": {"type": "bool", "default": False},
                },
            },
            "reach": {"type": "list", "elements": "str", "default": []},
            "python_environment": {"type": "bool", "default": False},
            "python": {"type": "path"},
            "package": {"type": "str"},
            "base_python": {"type": "path"},
            "secrets_dir": {"type": "path"},
            "challenge": {"type": "str", "no_log": True},
            "needs": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "directory": {"type": "str", "required": True},
                    "bytes": {"type": "int", "required": True},
                    "name": {"type": "str", "default": ""},
                    "marks": {"type": "list", "elements": "list", "default": []},
                },
            },
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        supports_check_mode=True,
    )
    facts = {**system(module), **gather(module.params, Programs(module))}
    challenge = module.params["challenge"]
    seals = sealed_secrets(os.path.join(deployment_dir(module.params), "secrets"), challenge) if challenge else {}
    # The clock is read last: nothing but the way back lies between it and the controller's.
    worked = time.monotonic() - started
    module.exit_json(changed=False, ansible_facts=facts, seals=seals, worked_seconds=worked, time=time.time())


if __name__ == "__main__":
    main()
