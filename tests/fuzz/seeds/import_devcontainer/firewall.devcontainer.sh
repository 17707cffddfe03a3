#!/bin/bash
set -euo pipefail
iptables -F
ipset create allowed-domains hash:net
ranges=$(curl -s https://api.github.com/meta)
echo "$ranges" | jq -r '(.web + .api + .git)[]' | while read -r range; do
    ipset add allowed-domains "$range"
done
for domain in \
    "registry.npmjs.org" \
    "api.anthropic.com" \
    "sentry.io" \
    "statsig.com"; do # resolved once
    for ip in $(dig +short A "$domain"); do
        ipset add allowed-domains "$ip"
    done
done
iptables -A OUTPUT -p udp --dport 53 -j ACCEPT
iptables -A OUTPUT -p tcp --dport 22 -j ACCEPT
iptables -P OUTPUT DROP
