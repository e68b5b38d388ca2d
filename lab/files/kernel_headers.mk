# The stand-in for a kernel's build system: for every module that dkms asks for it writes what lab/sim/load-module loads.
SHELL = /bin/bash
conf = $(M)/dkms.conf
version := $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' $(conf))
kind := $(if $(findstring open,$(shell sed -n 's/^PACKAGE_NAME="\(.*\)"/\1/p' $(conf))),open,proprietary)
names := $(shell sed -n 's/^BUILT_MODULE_NAME\[[0-9]*\]="\(.*\)"/\1/p' $(conf))

modules:
	@for name in $(names); do echo '{"version": "$(version)", "kind": "$(kind)"}' > $(M)/$$name.ko; done

.PHONY: modules
