"""A certificate of the collection's own make with its key that ends in so many days: old_certificate.py DAYS NAME"""

from __future__ import annotations

import datetime
import sys

from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.tls import (
    CERTIFICATE_DAYS,
    make_authority,
    make_certificate,
)

days, name = int(sys.argv[1]), sys.argv[2]
now = datetime.datetime.now(datetime.UTC)
made = now - datetime.timedelta(days=CERTIFICATE_DAYS - days)
certificate, key = make_certificate(*make_authority(now), [name], made)
print(certificate.decode() + key.decode())
