# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# pyperf-bpf. `make help` lists the targets; `V=1` shows commands; `DEV=1` makes warnings errors.

OUT     := .output
# Where the BPF half is. It depends on no flag of the user half, so a second build of that one, elsewhere, takes it from here.
BPF_OUT := $(OUT)
CC      ?= gcc
CLANG   ?= clang
BPFTOOL ?= $(or $(shell command -v bpftool 2>/dev/null),/usr/sbin/bpftool)
PREFIX  ?= /usr/local
MANDIR  ?= $(PREFIX)/share/man
# Not to be chosen: user/cmd/cmd_agent.c and user/symbolize/sym_builds.c look there, from where they are themselves.
LIBEXECDIR := $(PREFIX)/libexec/pyperf-bpf
DATADIR := $(PREFIX)/share/pyperf-bpf
Q       := $(if $(V),,@)
say      = $(if $(V),,@printf '  %-7s %s\n' $(1) '$(subst $(OUT)/,,$@)')

ARCH := $(shell uname -m | sed 's/x86_64/x86/; s/aarch64/arm64/')
# Debian's directory of headers by architecture. clang -dumpmachine calls it otherwise than gcc.
TRIPLE := $(shell uname -m)-linux-gnu

WARN   := -Wall -Wextra -Wsign-compare -Wstrict-prototypes -Wmissing-prototypes
CFLAGS ?= -O2 -g
# The same sources give the same programs wherever they are built.
PLACE  := -ffile-prefix-map=$(CURDIR)=.
ALL_CFLAGS := -std=gnu11 $(PLACE) $(WARN) $(if $(DEV),-Werror) -D_GNU_SOURCE -I. -iquote user -I$(BPF_OUT) -I$(OUT) $(CFLAGS)
# What makes a fault in a parser harder to use, as far as the compiler has it. CFLAGS come later and win. Not where
# a sanitizer looks at the same calls, nor without optimisation.
HARDEN_TRY := -fstack-protector-strong -fstack-clash-protection -fcf-protection -fPIE
HARDEN := $(shell for flag in $(HARDEN_TRY); do \
		$(CC) -Werror $$flag -x c -c /dev/null -o /dev/null 2>/dev/null && printf '%s ' $$flag; done) \
	$(if $(findstring -fsanitize,$(CFLAGS))$(filter-out -O1 -O2 -O3 -Os,$(or $(lastword $(filter -O%,$(CFLAGS))),-O0)),, \
		-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(shell echo 'int main(void) { return 0; }' | $(CC) -Werror -O2 \
			-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -include stdio.h -x c -c - -o /dev/null 2>/dev/null && \
			echo 3 || echo 2))
# By the build id its helpers know the program for the one that starts them.
HARDEN_LD := -pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,--build-id
SAN_CFLAGS := -std=gnu11 $(WARN) $(if $(DEV),-Werror) -D_GNU_SOURCE -I. -iquote user -I$(BPF_OUT) -I$(OUT) -O1 -g \
	-fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
LDLIBS := -pthread -lbpf -ldw -lelf -lprotobuf-c -liberty -llzma -lz -lncursesw -ltinfo -lm
BPF_CFLAGS := $(PLACE) -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Wno-unused-function \
	-D__TARGET_ARCH_$(ARCH) -I. -Ibpf -idirafter /usr/include/$(TRIPLE) $(if $(DEV),-Werror)

PROTO_OBJS := $(OUT)/profile/profile.pb-c.o
USER_SRCS  := $(sort $(filter-out user/agent/%,$(wildcard user/*/*.c)))
USER_OBJS  := $(patsubst user/%.c,$(OUT)/%.o,$(USER_SRCS)) $(PROTO_OBJS)
# Everything that neither needs the BPF skeleton nor holds main(): what unit tests link with.
NEEDS_SKEL := $(addprefix follow/,object object_config windows rings follow) $(addprefix sample/,dump overhead session session_result) \
	$(addprefix threads/,threaddump threadlist) top/top $(addprefix trace/,tracer tracer_names counting probing native_calls) \
	$(addprefix cmd/,main check record cmd_check cmd_dump cmd_record cmd_top cmd_trace)
PURE_SRCS  := $(filter-out $(patsubst %,user/%.c,$(NEEDS_SKEL)),$(USER_SRCS))
PURE_OBJS  := $(patsubst user/%.c,$(OUT)/%.o,$(PURE_SRCS)) $(PROTO_OBJS)
# The agent is a program of its own, so that its libraries cost the others nothing.
AGENT_SRCS := $(sort $(wildcard user/agent/*.c user/agent/*/*.c))
AGENT_PROTO_OBJS := $(patsubst user/%.proto,$(OUT)/%.pb-c.o,$(wildcard user/agent/*/*.proto))
AGENT_OBJS := $(patsubst user/%.c,$(OUT)/%.o,$(AGENT_SRCS) $(PURE_SRCS)) \
	$(patsubst %,$(OUT)/%.o,$(filter follow/% sample/% threads/threadlist,$(NEEDS_SKEL))) $(PROTO_OBJS) $(AGENT_PROTO_OBJS)
AGENT_LDLIBS := -lcurl -lmicrohttpd -linih
AGENT_PURE := $(filter-out $(patsubst %,user/agent/%.c,main agent agent_status),$(AGENT_SRCS))
SAN_OBJS   := $(patsubst user/%.c,$(OUT)/san/%.o,$(PURE_SRCS) $(AGENT_PURE)) $(OUT)/san/profile/profile.pb-c.o \
	$(patsubst $(OUT)/%,$(OUT)/san/%,$(AGENT_PROTO_OBJS))
# The folders of user/, each with a slash: where objects and what they depend on are.
ROOMS      := $(sort $(patsubst user/%,%,$(dir $(USER_SRCS) $(AGENT_SRCS))))
UNIT_BINS  := $(patsubst tests/unit/%.c,$(OUT)/tests/%,$(wildcard tests/unit/test_*.c))
FUZZ_BINS  := $(patsubst tests/fuzz/%.c,$(OUT)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
BPF_TESTS  := $(patsubst tests/bpf/%.c,$(OUT)/tests/%,$(wildcard tests/bpf/test_*.c))
BPF_HALF   := $(patsubst bpf/%.bpf.c,$(BPF_OUT)/%.skel.h,$(wildcard bpf/*.bpf.c)) $(BPF_OUT)/core_types.h
ORACLES    := $(OUT)/oracle/rows $(OUT)/oracle/stacks

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all test test-unit test-fuzz test-bpf test-e2e test-quick test-attacks test-pythons test-vm test-systemd test-oracle fuzz check \
	sanitized bench-ehframe bench-export bench-page format size install uninstall deb deb-programs deb-install dist clean help

all: $(OUT)/pyperf-bpf $(OUT)/pyperf-bpf-agent $(OUT)/names  ## build the programs

$(sort $(OUT) $(BPF_OUT)) $(OUT)/tests $(OUT)/fuzz $(addprefix $(OUT)/,$(ROOMS)) $(addprefix $(OUT)/san/,$(ROOMS)):
	$(Q)mkdir -p $@

# ---- BPF half --------------------------------------------------------------------------------
$(BPF_OUT)/%.bpf.o: bpf/%.bpf.c Makefile | $(BPF_OUT)
	$(call say,BPF)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -MF $(BPF_OUT)/$*.bpf.d -c $< -o $@
	$(Q)llvm-strip -g $@

$(BPF_OUT)/%.skel.h: $(BPF_OUT)/%.bpf.o
	$(call say,SKEL)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@

# ---- user half -------------------------------------------------------------------------------
$(OUT)/%.pb-c.c: user/%.proto | $(addprefix $(OUT)/,$(ROOMS))
	$(call say,PROTO)
	$(Q)protoc-c --proto_path=$(<D) --c_out=$(@D) $(<F)
$(OUT)/%.pb-c.h: $(OUT)/%.pb-c.c ;

# [__NR_read] = "read", and so on, for the machine that it is built for.
$(OUT)/syscall_names.h: Makefile | $(OUT)
	$(call say,GEN)
	$(Q)echo '#include <asm/unistd.h>' | $(CC) -E -dM -x c - | sort | \
		sed -nE '/ __NR_(syscalls|arch_specific_syscall) /d; s/^#define __NR_([a-z0-9_]+) .*/[__NR_\1] = "\1",/p' > $@

$(OUT)/%.pb-c.o: $(OUT)/%.pb-c.c
	$(call say,CC)
	$(Q)$(CC) $(HARDEN) $(ALL_CFLAGS) -I$(@D) -Wno-unused-parameter -c $< -o $@
$(OUT)/san/%.pb-c.o: $(OUT)/%.pb-c.c | $(addprefix $(OUT)/san/,$(ROOMS))
	$(Q)$(CC) $(SAN_CFLAGS) -I$(<D) -Wno-unused-parameter -c $< -o $@

# The pages, each with its style and script inside.
$(OUT)/page_%.h: user/web/%.html scripts/embed-page $(wildcard user/web/*) | $(OUT)
	$(call say,PAGE)
	$(Q)scripts/embed-page page_$* $< > $@
$(OUT)/export/export_html.o $(OUT)/san/export/export_html.o: $(OUT)/page_flame.h
$(OUT)/cmd/heap_page.o $(OUT)/san/cmd/heap_page.o: $(OUT)/page_heap.h
$(OUT)/export/export_lines.o $(OUT)/san/export/export_lines.o: $(OUT)/page_lines.h
$(OUT)/agent/http/http_page.o $(OUT)/san/agent/http/http_page.o: $(OUT)/page_agent.h

$(OUT)/%.o: user/%.c Makefile | $(addprefix $(OUT)/,$(ROOMS))
	$(call say,CC)
	$(Q)$(CC) $(HARDEN) $(ALL_CFLAGS) -MMD -MP -c $< -o $@
$(patsubst %,$(OUT)/%.o,$(NEEDS_SKEL)): $(BPF_OUT)/pyperf.skel.h
$(OUT)/threads/threadlist.o: $(BPF_OUT)/threads.skel.h
$(OUT)/trace/tracer.o $(OUT)/trace/tracer_names.o: $(BPF_OUT)/trace.skel.h
$(OUT)/trace/probing.o: $(BPF_OUT)/hist.skel.h
$(OUT)/trace/native_calls.o: $(BPF_OUT)/native.skel.h
$(OUT)/sources/probe_source.o $(OUT)/san/sources/probe_source.o: $(BPF_OUT)/probe.skel.h $(BPF_OUT)/pyperf.skel.h
$(OUT)/sources/tracepoint_source.o $(OUT)/san/sources/tracepoint_source.o: $(BPF_OUT)/tracepoint.skel.h \
	$(BPF_OUT)/pyperf.skel.h
$(OUT)/sources/wait_source.o $(OUT)/san/sources/wait_source.o: $(BPF_OUT)/wait.skel.h $(BPF_OUT)/gil.skel.h \
	$(BPF_OUT)/wakers.skel.h $(BPF_OUT)/pyperf.skel.h
$(OUT)/sources/growth_source.o $(OUT)/san/sources/growth_source.o: $(BPF_OUT)/growth.skel.h $(BPF_OUT)/pyperf.skel.h
$(OUT)/sources/alloc_source.o $(OUT)/san/sources/alloc_source.o: $(BPF_OUT)/blocks.skel.h $(BPF_OUT)/pyperf.skel.h
$(OUT)/sources/refcount_source.o $(OUT)/san/sources/refcount_source.o: $(BPF_OUT)/refcount.skel.h $(BPF_OUT)/pyperf.skel.h

# The names of all types in the objects, in the order of strcmp(); those of the kernel are among them.
$(BPF_OUT)/core_types.h: $(patsubst %,$(BPF_OUT)/%.bpf.o,pyperf wait gil wakers growth blocks refcount tracepoint) Makefile
	$(call say,GEN)
	$(Q){ echo 'static const char *const core_types[] = {'; for o in $(filter %.o,$^); do $(BPFTOOL) btf dump file $$o; done | \
		sed -nE "s/^\[[0-9]+\] (STRUCT|UNION|ENUM|ENUM64) '([A-Za-z_0-9]+)'.*/\2/p" | sed 's/___.*//' | \
		LC_ALL=C sort -u | sed 's/.*/"&",/'; echo '};'; } > $@
$(OUT)/follow/kernelbtf.o $(OUT)/san/follow/kernelbtf.o: $(BPF_OUT)/core_types.h
$(OUT)/base/syscalls.o $(OUT)/san/base/syscalls.o: $(OUT)/syscall_names.h
$(foreach o,export/export_pprof agent/push/push_values,$(OUT)/$(o).o $(OUT)/san/$(o).o): $(OUT)/profile/profile.pb-c.h
$(foreach k,otlp parca pyroscope,$(eval $(addsuffix agent/push/push_$(k).o,$(OUT)/ $(OUT)/san/): $(OUT)/agent/push/$(k).pb-c.h))

# Never written in place: programs that run have it mapped.
$(OUT)/names: share/names.xz Makefile | $(OUT)
	$(call say,XZ)
	$(Q)xz -dc $< > $@.new && chmod 644 $@.new && mv $@.new $@

$(OUT)/pyperf-bpf: $(USER_OBJS)
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) $(HARDEN_LD) $(LDFLAGS) $^ -o $@ $(LDLIBS)

# For machines without these libraries: only the C library is linked at run time. libdw may want more of them.
STATIC_LIBS := -lbpf -ldw -lelf -lprotobuf-c -liberty -llzma \
	$(foreach lib,bz2 zstd,$(if $(filter /%,$(shell $(CC) -print-file-name=lib$(lib).a)),-l$(lib))) -lz -lncursesw -ltinfo
$(OUT)/portable/pyperf-bpf: $(USER_OBJS)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(HARDEN_LD) $(LDFLAGS) $^ -o $@ -pthread -Wl,-Bstatic $(STATIC_LIBS) -Wl,-Bdynamic -lm

# What it does not need of user/ is not linked: the libraries of the other commands are not, either.
$(OUT)/pyperf-bpf-agent: $(AGENT_OBJS)
	$(call say,LINK)
	$(Q)rm -f $@.a && ar rcs $@.a $(filter-out $(OUT)/agent/main.o,$^)
	$(Q)$(CC) $(CFLAGS) $(HARDEN_LD) $(LDFLAGS) $(OUT)/agent/main.o $@.a -o $@ -Wl,--as-needed $(LDLIBS) $(AGENT_LDLIBS)

# ---- tests -----------------------------------------------------------------------------------
$(OUT)/san/%.o: user/%.c Makefile | $(addprefix $(OUT)/san/,$(ROOMS))
	$(call say,CC-SAN)
	$(Q)$(CC) $(SAN_CFLAGS) -MMD -MP -c $< -o $@

$(OUT)/libsan.a: $(SAN_OBJS)
	$(Q)rm -f $@ && ar rcs $@ $^

# Lets a program of unit or bpf run one case alone.
$(OUT)/tests/one_case.o: tests/one_case.c | $(OUT)/tests
	$(Q)$(CC) $(ALL_CFLAGS) -c $< -o $@

$(OUT)/tests/%: tests/unit/%.c $(OUT)/tests/one_case.o $(OUT)/libsan.a | $(OUT)/tests
	$(call say,TEST)
	$(Q)$(CC) $(SAN_CFLAGS) -Itests -MMD -MP -MF $@.d $< $(OUT)/tests/one_case.o -o $@ $(OUT)/libsan.a -lcmocka $(LDLIBS) \
		-Wl,--as-needed $(AGENT_LDLIBS) -lsqlite3

# A program for end-to-end tests: with sanitizers, as what it meets is hostile.
$(OUT)/tests/http_server: tests/agent/http_server.c $(OUT)/libsan.a | $(OUT)/tests
	$(call say,TEST)
	$(Q)$(CC) $(SAN_CFLAGS) -MMD -MP -MF $@.d $< -o $@ $(OUT)/libsan.a $(LDLIBS) \
		-Wl,--as-needed $(AGENT_LDLIBS)

$(OUT)/fuzz/%: tests/fuzz/%.c $(OUT)/libsan.a | $(OUT)/fuzz
	$(call say,FUZZ)
	$(Q)$(CC) $(SAN_CFLAGS) -Itests -MMD -MP -MF $@.d $< tests/fuzz/replay.c -o $@ $(OUT)/libsan.a $(LDLIBS) \
		-Wl,--as-needed $(AGENT_LDLIBS)

$(OUT)/tests/%: tests/bpf/%.c $(OUT)/tests/one_case.o $(filter-out $(OUT)/cmd/main.o,$(USER_OBJS)) | $(OUT)/tests
	$(call say,TEST)
	$(Q)$(CC) $(ALL_CFLAGS) -Itests -MMD -MP -MF $@.d $< $(OUT)/tests/one_case.o $(filter-out $(OUT)/cmd/main.o,$(USER_OBJS)) -o $@ -lcmocka $(LDLIBS)

# For programs of tests: of user/ only what they need is linked.
$(OUT)/libpure.a: $(PURE_OBJS)
	$(Q)rm -f $@ && ar rcs $@ $^

# What drives the push code for test-e2e and scripts/test-backends.
PUSH_OBJS := $(patsubst user/%.c,$(OUT)/%.o,$(wildcard user/agent/push/push*.c) $(addprefix user/agent/push/,spool.c \
	winfile.c)) $(AGENT_PROTO_OBJS)
$(OUT)/tests/push_windows: tests/agent/push_windows.c $(PUSH_OBJS) $(OUT)/libpure.a | $(OUT)/tests
	$(call say,TEST)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d $(filter %.c %.o %.a,$^) -o $@ $(LDLIBS) -Wl,--as-needed $(AGENT_LDLIBS)

test: test-unit test-fuzz test-bpf test-e2e test-attacks  ## all tests (root for the last three)

# t=NAME: of these kinds only one program (t=walk), of e2e one file or the cases of one name (t=test_shares).
one = $(if $(t),$(OUT)/$1_$(t:$(notdir $1)_%=%),$2)

test-unit: $(call one,tests/test,$(UNIT_BINS))  ## host tests of every stage, ASan and UBSan (t=NAME: one)
	$(Q)scripts/run-tests unit $^
test-fuzz: $(call one,fuzz/fuzz,$(FUZZ_BINS))   ## replay the fuzz corpora (t=NAME: one)
	$(Q)scripts/run-tests fuzz $^
SECONDS ?= 60
fuzz: $(call one,fuzz/fuzz,$(FUZZ_BINS))        ## look for faults of the parsers (SECONDS=60 each; t=NAME: one)
	$(Q)set -e; for f in $^; do $$f -s $$$$ -t $(SECONDS) 2>$(OUT)/fuzz.log || { tail -n 50 $(OUT)/fuzz.log; exit 1; }; done
test-bpf: $(call one,tests/test,$(BPF_TESTS))   ## drive the loaded BPF object (root; t=NAME: one)
	$(Q)scripts/run-tests bpf $^
E2E_PROGRAMS := $(addprefix $(OUT)/,oracle/stacks oracle/tables oracle/names tests/http_server tests/push_windows store/windows bench/bench_export)
# The build that tests of the package would else wait for.
E2E_BUILDS := $(if $(shell command -v dpkg-buildflags),$(if $(filter-out packaging dist test_pack%,$(t)),,deb-programs))
test-e2e: all $(E2E_PROGRAMS) $(E2E_BUILDS)  ## real interpreters (root; t=NAME: one file, or one case)
	$(Q)scripts/run-tests e2e $(t)
test-quick: all $(E2E_PROGRAMS)        ## the end-to-end cases of tests/quick.txt (root)
	$(Q)PYPERF_TEST_LIST=tests/quick.txt scripts/run-tests e2e
test-attacks: all                      ## what an unprivileged user tries (root; t=NAME: one file, or one case)
	$(Q)scripts/run-tests attacks $(t)

SAN_OUT := $(OUT)/sanitized
sanitized: $(BPF_HALF) $(OUT)/names    ## the programs with ASan and UBSan, in .output/sanitized
	$(Q)$(MAKE) --no-print-directory OUT=$(SAN_OUT) BPF_OUT=$(BPF_OUT) \
		CFLAGS='-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined' all

test-oracle: $(ORACLES)                ## stacks at random instants against libdwfl (root; ARGS=...)
	$(Q)scripts/test-oracle $(ARGS)

# Without sanitizers: as fast as they can be.
$(OUT)/oracle/rows: tests/unit/test_ehframe_oracle.c $(OUT)/libpure.a Makefile
	$(Q)mkdir -p $(@D)
	$(call say,TEST)
	$(Q)$(CC) $(ALL_CFLAGS) -Itests -MMD -MP -MF $@.d $< $(OUT)/libpure.a -o $@ -lcmocka $(LDLIBS)

$(OUT)/oracle/%.o: tests/oracle/%.c Makefile
	$(Q)mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(OUT)/oracle/stacks: $(patsubst %,$(OUT)/oracle/%.o,stacks ours theirs) $(OUT)/libpure.a
	$(call say,TEST)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LDLIBS)

$(OUT)/oracle/tables $(OUT)/oracle/names: $(OUT)/oracle/%: $(OUT)/oracle/%.o $(OUT)/libpure.a
	$(call say,TEST)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LDLIBS)

# Writes windows into a store, as the agent does.
$(OUT)/store/windows: tests/store/windows.c $(OUT)/libpure.a Makefile
	$(Q)mkdir -p $(@D)
	$(call say,TEST)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -MMD -MP -MF $@.d $(filter %.c %.o %.a,$^) -o $@ $(LDLIBS)

test-pythons: all                      ## one table: every interpreter there is (root; ARGS=...)
	$(Q)scripts/test-pythons $(ARGS)

test-vm: all $(OUT)/tests/test_fields  ## other kernels, in QEMU (root; ARGS=...)
	$(Q)scripts/test-vm $(ARGS)

test-systemd: all                      ## the package and its unit under systemd, in QEMU (root; ARGS=...)
	$(Q)scripts/test-systemd $(ARGS)

bench-ehframe: $(OUT)/bench/bench_ehframe  ## speed and size of unwind tables (FILES=...)
	$(Q)$< $(FILES)

bench-export: $(OUT)/bench/bench_export  ## cost of an output format (ARGS="STACKS FILE...")
	$(Q)$< $(ARGS)

bench-page: all                        ## the page in a browser, with 200,000 frames (ARGS="PAGE.html...")
	$(Q)tests/bench/bench_page.py $(ARGS)

$(OUT)/bench/bench_export: tests/bench/bench_export.c $(OUT)/libpure.a Makefile
	$(Q)mkdir -p $(@D)
	$(call say,BENCH)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d $(filter %.c %.o %.a,$^) -o $@ $(LDLIBS)

$(OUT)/bench/%.skel.h: tests/bench/%.bpf.c Makefile
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $(@D)/$*.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $(@D)/$*.bpf.o name $*_bpf > $@

$(addprefix $(OUT)/bench/bench_,empty getstack trap): $(OUT)/bench/bench_%: tests/bench/bench_%.c $(OUT)/bench/%.skel.h
	$(call say,BENCH)
	$(Q)$(CC) $(ALL_CFLAGS) -I$(@D) $< -o $@ $(LDLIBS)

BENCH_ELF_OBJS := $(patsubst user/%.c,$(OUT)/%.o,$(wildcard user/base/*.c user/elf/*.c))

$(OUT)/bench/%: tests/bench/%.c $(BENCH_ELF_OBJS) Makefile
	$(Q)mkdir -p $(@D)
	$(call say,BENCH)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d $< $(BENCH_ELF_OBJS) -o $@ $(LDLIBS)

check: all                             ## headers compile alone, formatting
	$(Q)scripts/check-source

format:                                ## clang-format in place
	$(Q)clang-format -i bpf/*.[ch] bpf/arch/*.h $(wildcard user/*/*.[ch] user/agent/*/*.[ch]) $(wildcard tests/*/*.[ch])

size: all                              ## sizes of the products
	$(Q)size $(OUT)/pyperf-bpf $(OUT)/pyperf-bpf-agent $(BPF_OUT)/pyperf.bpf.o

# What `install` puts where, SOURCE:TARGET, and the directories that are the program's own. `uninstall` goes
# by the same list. STRIP= keeps the symbols.
STRIP    ?= strip
UNITDIR  ?= $(PREFIX)/lib/systemd/system
DOCDIR   ?= $(PREFIX)/share/doc/pyperf-bpf
PROGRAMS := $(OUT)/pyperf-bpf:$(PREFIX)/bin/pyperf-bpf \
	$(OUT)/pyperf-bpf-agent:$(LIBEXECDIR)/pyperf-bpf-agent
FILES := $(foreach n,1 8,$(foreach page,$(wildcard docs/*.$n),$(page):$(MANDIR)/man$n/$(notdir $(page)))) \
	completions/pyperf-bpf.bash:$(PREFIX)/share/bash-completion/completions/pyperf-bpf \
	completions/_pyperf-bpf:$(PREFIX)/share/zsh/site-functions/_pyperf-bpf \
	completions/pyperf-bpf.fish:$(PREFIX)/share/fish/vendor_completions.d/pyperf-bpf.fish \
	$(OUT)/pyperf-bpf-agent.service:$(UNITDIR)/pyperf-bpf-agent.service \
	packaging/systemd/pyperf-bpf-agent.socket:$(UNITDIR)/pyperf-bpf-agent.socket \
	$(OUT)/names:$(DATADIR)/names \
	packaging/systemd/push.conf:$(DOCDIR)/examples/push.conf \
	docs/agent.conf:$(DOCDIR)/examples/agent.conf
OWN_DIRS := $(DOCDIR)/examples $(DOCDIR) $(LIBEXECDIR) $(DATADIR)

$(OUT)/pyperf-bpf-agent.service: packaging/systemd/pyperf-bpf-agent.service FORCE | $(OUT)
	$(Q)sed 's,^ExecStart=/usr/bin/,ExecStart=$(PREFIX)/bin/,' $< > $@
.PHONY: FORCE

install: all $(OUT)/pyperf-bpf-agent.service  ## into $(DESTDIR)$(PREFIX), stripped unless STRIP=
	$(Q)set -e; for f in $(PROGRAMS); do \
		install -D -m 0755 $(if $(STRIP),-s --strip-program='$(STRIP)') "$${f%%:*}" "$(DESTDIR)$${f##*:}"; \
	done
	$(Q)set -e; for f in $(FILES); do install -D -m 0644 "$${f%%:*}" "$(DESTDIR)$${f##*:}"; done

uninstall:                             ## remove what install has put into $(DESTDIR)$(PREFIX)
	$(Q)for f in $(PROGRAMS) $(FILES); do rm -f "$(DESTDIR)$${f##*:}"; done
	$(Q)for d in $(OWN_DIRS); do \
		[ ! -d "$(DESTDIR)$$d" ] || rmdir --ignore-fail-on-non-empty "$(DESTDIR)$$d"; \
	done

# The programs of the package: with Debian's own flags, in a directory of their own. Its _FORTIFY_SOURCE may be lower.
DEB_FLAGS = $(shell DEB_BUILD_MAINT_OPTIONS=hardening=+all dpkg-buildflags --get $1)
DEB_BUILD = OUT='$(OUT)/deb' BPF_OUT='$(BPF_OUT)' CFLAGS='$(filter-out -D_FORTIFY_SOURCE=%,$(call DEB_FLAGS,CPPFLAGS) $(call DEB_FLAGS,CFLAGS))' \
	LDFLAGS='$(call DEB_FLAGS,LDFLAGS)'
deb-programs: $(BPF_HALF)              ## the programs of the Debian package (dpkg-dev), in .output/deb
	$(Q)$(MAKE) $(DEB_BUILD) all
deb-install:
	$(Q)$(MAKE) $(DEB_BUILD) install

deb: deb-programs                      ## the Debian package, in .output
	$(Q)scripts/make-deb $(OUT)

dist: all $(OUT)/portable/pyperf-bpf   ## program of one file, wheel and package, in .output/dist
	$(Q)scripts/make-dist $(OUT)/dist

clean:                                 ## remove the products
	$(Q)rm -rf $(OUT)

help:                                  ## this list
	$(Q)sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 16

-include $(sort $(wildcard $(OUT)/*.d $(BPF_OUT)/*.d $(patsubst %,$(OUT)/%/*.d,tests fuzz bench oracle store) \
	$(foreach r,$(ROOMS),$(OUT)/$r*.d $(OUT)/san/$r*.d)))
