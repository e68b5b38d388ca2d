#!/bin/bash
# What the site's hosts ask: packages by http on port 80, whose lists are signed; a hub on 443 and a registry on 5000 with a certificate of the site's
# authority; both once more, on 8443 and 5001, with a certificate that nobody knows. Each writes down in /state what it was asked.
set -eu
python3 -m http.server 80 --directory /state/packages > /state/packages.log 2>&1 &
for kind in site stranger; do
  hub=443 registry=5000
  if [ "$kind" = stranger ]; then
    hub=8443 registry=5001
  fi
  python3 /support/hub.py /state/hub 0.0.0.0 "$hub" "/state/tls/$kind.crt" "/state/tls/$kind.key" > "/state/hub-$kind.log" 2>&1 &
  cat > "/etc/registry-$kind.yml" <<CONFIGURATION
version: 0.1
storage: {filesystem: {rootdirectory: /registry}}
auth: {htpasswd: {realm: lab, path: /state/tls/htpasswd}}
http: {addr: ":$registry", tls: {certificate: /state/tls/$kind.crt, key: /state/tls/$kind.key}}
CONFIGURATION
  docker-registry serve "/etc/registry-$kind.yml" > "/state/registry-$kind.log" 2>&1 &
done
wait
