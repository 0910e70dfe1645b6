#!/usr/bin/env bash
# directory.sh FOLDER: builds farshidtz/wot-discovery-testing, which judges directories of W3C WoT Discovery, in an empty folder.
#
# Needs go and git. Its modules are cloned at the commits of their releases and replaced in go.mod, so that no module proxy is
# asked: one of them has a module path that no longer exists. Then, in FOLDER/run:
#
#   ../judge -test.v -test.skip TestSPARQL -testJSONPath -server=http://127.0.0.1:PORT
#
# Its exit code is always 0: FOLDER/run/report/tdd-auto.csv has the judgement. TestSPARQL asks a public server.
set -euo pipefail

main() {
    cd "$1"
    clone suite farshidtz/wot-discovery-testing b1bea83845aeac70621c83a3f71ff1128775e7d1
    clone sse r3labs/sse v2.3.3
    clone uuid satori/go.uuid v1.2.0
    clone backoff cenkalti/backoff v1.1.0
    clone discovery w3c/wot-discovery 1a796f0b72f9df55a9ec38bef3fa913c4639d069
    sed -i 's#golang.org/x/net/context#context#' backoff/*.go
    module backoff gopkg.in/cenkalti/backoff.v1
    module uuid github.com/satori/go.uuid
    module sse github.com/r3labs/sse/v2
    echo 'require gopkg.in/cenkalti/backoff.v1 v1.1.0' >> sse/go.mod
    cat >> suite/directory/go.mod <<'MOD'
replace github.com/r3labs/sse/v2 => ../../sse
replace github.com/satori/go.uuid => ../../uuid
replace gopkg.in/cenkalti/backoff.v1 => ../../backoff
MOD
    rm -f suite/directory/go.sum
    (
        cd suite/directory
        GOPATH="$1/gopath" GOCACHE="$1/gocache" GOPROXY=off GOSUMDB=off GOFLAGS=-mod=mod GOTOOLCHAIN=local go test -c -o ../../judge .
    )
    mkdir -p run/report
    for each in template manual; do  # it takes the first column for the id, and template.csv has an index before it
        python3 -c '
import csv, sys
rows = list(csv.reader(sys.stdin))
at = rows[0].index("ID")
csv.writer(sys.stdout).writerows(row[at:] for row in rows)' < "discovery/testing/$each.csv" > "run/report/$each.csv"
    done
}

clone() { git clone --quiet "https://github.com/$2" "$1" && git -C "$1" -c advice.detachedHead=false checkout --quiet "$3"; }

module() { printf 'module %s\ngo 1.16\n' "$2" > "$1/go.mod"; }

main "$1"
