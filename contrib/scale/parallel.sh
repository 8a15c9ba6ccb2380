#!/bin/sh
# Shards that failed or were killed run again with: RETRY=--retry-failed sh this-script
exec parallel --joblog 001-b.joblog ${RETRY:-} --jobs "${JOBS:-100%}" \
    rdt-lab run 001-B -q -o "${RESULTS:-results}" -j 1 --shard '{}/16' --only-run ::: $(seq 0 15)
