# Every target says what it does; `make help` lists them.
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
VERSION = $(shell git describe --always --dirty)
TOOLS = redis-server postgres rabbitmq-server promtool chromium
# Packages whose tests start pushq's processes, several at a time: one after the
# other. The tests of all others mostly wait, so four packages run at once.
PROCESSES = ^pushq/(cmd|faults)

.PHONY: help test test-faults bench soak lint vuln docs build

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

test: ## install what the tests start if it is missing, then run them all
	@./scripts/ensure $(TOOLS)
	failed=0; \
	go test -race -p 4 -timeout 30m $$(go list ./... | grep -vE '$(PROCESSES)') || failed=1; \
	go test -race -p 1 -timeout 30m $$(go list ./... | grep -E '$(PROCESSES)') || failed=1; \
	exit $$failed

test-faults: ## kill, freeze, cut off and slow down what runs, at full length, and count what was lost (ten minutes)
	@./scripts/ensure redis-server postgres rabbitmq-server
	go test -race -count=1 -v -timeout 60m ./faults -full

bench: ## measure pushq beside its alternatives (an hour and a half); ARGS='--only drain', ARGS=--quick, ARGS=--list
	@./scripts/ensure redis-server >&2
	@./scripts/ensure postgres npm >&2 || echo "lines that compare with River or BullMQ will be empty" >&2
	@cd bench && go run . $(ARGS)

soak: ## 250 pushes a second with restarts, and what memory does (15 minutes); ARGS='--soak 4m'
	@./scripts/ensure redis-server >&2
	@cd bench && go run . --soak 15m $(ARGS)

lint: ## formatting, vet and staticcheck
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "not formatted (run gofmt -w): $$unformatted"; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...
	cd bench && go vet ./... && go run $(STATICCHECK) ./...

vuln: ## known vulnerabilities in what is called; fails if there are some, or if it cannot be checked
	@./scripts/vuln

docs: ## write docs/configuration.md from the configuration's own description
	text=$$(go run ./cmd/pushq config doc) && printf '%s\n' "$$text" > docs/configuration.md

build: ## build the binary into bin/pushq
	CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/pushq ./cmd/pushq
