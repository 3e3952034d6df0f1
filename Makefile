# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# What people type. What the kernel builds is in Kbuild; where the steps run is
# tests/vm/enter: a Debian 13 root tree of this project's own.

# The kernel series to build for and to run: 7.3, 7.2, debug
KERNEL ?= 7.3
# The series that `make check` tests on: KERNEL if the person at the keyboard named it, else both
KERNELS ?= $(if $(filter file default,$(origin KERNEL)),7.3 7.2,$(KERNEL))
STOCK = $(filter-out debug,$(KERNELS))
# The tests, or checks, to run: a glob, for instance T='host/*' or T='*/ulp/*'
T ?= *

ENTER := tests/vm/enter

.PHONY: all modules connectx demo bench check check-all lint install clean help

all: modules $(if $(KDIR),,connectx) ## build the modules and the software ConnectX (default)

ifdef KDIR

# On a machine of one's own, without the root tree: by the compiler and with the name that
# the tree was prepared by. What is installed has no tests in it; TESTS=1 builds them, too.
kernel_cc := $(shell sed -n 's/^CONFIG_CC_VERSION_TEXT="\([^ ]*\) .*/\1/p' $(KDIR)/.config)
kernel_release := $(shell cat $(KDIR)/include/config/kernel.release)
kernel_make = $(MAKE) -C $(KDIR) CC=$(kernel_cc) KERNELRELEASE=$(kernel_release) M=$(CURDIR) \
	$(if $(TESTS),,MLX5_ULP_INSTALLED=1)

modules:
	$(kernel_make) modules

# A prepared tree has no System.map, without which kbuild does not run depmod.
install: ## with KDIR=...: install the modules for that kernel
	$(kernel_make) CONFIG_MODULE_SIG_ALL= modules_install
	$(if $(INSTALL_MOD_PATH),,depmod $(kernel_release))

else

modules: ## build the modules for KERNEL (7.3), or with KDIR=<prepared kernel tree> for your own
	@$(ENTER) --kernel $(KERNEL) -- python3 -m runner.make modules --kernel $(KERNEL)

install:
	@echo "make install KDIR=<prepared kernel tree>: installs for the kernel of this machine" >&2; exit 2

endif

connectx: ## build the software ConnectX
	@$(ENTER) -- python3 -m runner.make connectx

demo: ## move a file by RDMA WRITE between two software ConnectX functions, in a VM
	@$(ENTER) --kernel $(KERNEL) -- python3 -m runner.demo --kernel $(KERNEL)

bench: ## count the instructions of posting and completing, side by side with mlx5_ib
	@$(ENTER) --kernel $(KERNEL) -- python3 -m runner.bench --kernel $(KERNEL) $(if $(KEEP),--keep) $(if $(QUICK),--quick)

check: ## run all tests on 7.3 and 7.2, or on KERNEL; all, or those that match T
	@$(ENTER) $(KERNELS:%=--optional-kernel %) -- python3 -m runner.check $(KERNELS:%=--kernel %) --glob '$(T)'

check-all: ## check, and what takes longer: repetitions, long fuzzing, the debug kernel
	@$(ENTER) $(STOCK:%=--optional-kernel %) --kernel debug -- \
		python3 -m runner.check --long $(STOCK:%=--kernel %) --kernel debug --glob '$(T)'

lint: ## check style and licences, and that nothing warns
	@$(ENTER) --kernel $(KERNEL) -- python3 -m lint --kernel $(KERNEL) --glob '$(T)'

clean: ## remove what was built here (the cache stays)
	rm -rf build

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | sort -u | awk -F '\t' '{ printf "  %-10s %s\n", $$1, $$2 }'
	@echo
	@echo "  KERNEL=7.3|7.2|debug  the kernel for all, modules, demo, bench, check, lint (7.3)"
	@echo "  T=<glob>              the tests for check and check-all, the checks for lint"
	@echo "  KEEP=1                bench: make it the result under Documentation/"
	@echo "  QUICK=1               bench: without the large table"
	@echo "  MLX5_ULP_CACHE=<dir>  where the root tree and the kernels are (~/.cache/mlx5_ulp)"
	@echo "  MLX5_ULP_MIRROR=<uri> the Debian archive to take them from (that of this machine's apt)"
	@echo "  ACCEL=kvm             run VMs with KVM instead of emulation"
	@echo "  JOBS=<n>              how many VMs check runs at a time (CPUs and one, 4 at most)"
	@echo "  TIMEOUT_SCALE=<n>     for slow machines: multiplies all time limits"
