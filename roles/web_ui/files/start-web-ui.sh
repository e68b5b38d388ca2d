#!/bin/sh
# Starts Open WebUI, as the container's only task. Its secrets come from files: neither the process list nor 'docker inspect' shows them.
set -eu

secret() {
  if ! [ -s "/run/secrets/$1" ]; then
    echo "error: /run/secrets/$1 holds no secret" >&2
    exit 1
  fi
  cat "/run/secrets/$1"
}

# What the inventory sets, each in quotes.
set -a
# shellcheck source=/dev/null
. /run/secrets/environment
set +a

OPENAI_API_KEY=$(secret gateway_web_ui_key)
WEBUI_SECRET_KEY=$(secret web_ui_session_key)
WEBUI_ADMIN_PASSWORD=$(secret web_ui_admin_password)
export OPENAI_API_KEY WEBUI_SECRET_KEY WEBUI_ADMIN_PASSWORD
# Who signs in by a provider or a directory.
if [ -n "${OAUTH_CLIENT_ID:-}" ]; then
  OAUTH_CLIENT_SECRET=$(secret web_ui_oidc_client_secret)
  export OAUTH_CLIENT_SECRET
fi
if [ -n "${LDAP_APP_DN:-}" ]; then
  LDAP_APP_PASSWORD=$(secret web_ui_ldap_password)
  export LDAP_APP_PASSWORD
fi

exec python3 -m uvicorn open_webui.main:app --host "$HOST" --port "$PORT" --forwarded-allow-ips 127.0.0.1 --no-access-log
