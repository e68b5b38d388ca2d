"""Serves /metrics as vLLM 0.8.5 does, with figures that grow. It is a webhook, too: each request that is posted to it is appended to /root/alerts.json.

The names are written out here, and not read from the collection's table, so that one can be compared with the other.
"""

import http.server
import time

STARTED = time.time()
FIGURES = {
    "vllm:num_requests_running": 2,
    "vllm:num_requests_waiting": 1,
    "vllm:gpu_cache_usage_perc": 0.4,
}
A_SECOND = {
    "vllm:prompt_tokens_total": 50,
    "vllm:generation_tokens_total": 20,
    "vllm:request_success_total": 1,
    "vllm:num_preemptions_total": 0.1,
    "vllm:gpu_prefix_cache_queries_total": 40,
    "vllm:gpu_prefix_cache_hits_total": 10,
}
HISTOGRAMS = [
    "vllm:time_to_first_token_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:request_queue_time_seconds",
    "vllm:time_per_output_token_seconds",
]


def page():
    seconds = time.time() - STARTED
    for name, value in FIGURES.items():
        yield '{}{{model_name="tiny"}} {}'.format(name, value)
    for name, value in A_SECOND.items():
        yield '{}{{model_name="tiny"}} {}'.format(name, value * seconds)
    for name in HISTOGRAMS:
        for bound, share in (("0.1", 0.5), ("1.0", 0.9), ("+Inf", 1.0)):
            yield '{}_bucket{{model_name="tiny",le="{}"}} {}'.format(name, bound, share * seconds)
        yield '{}_sum{{model_name="tiny"}} {}'.format(name, seconds)
        yield '{}_count{{model_name="tiny"}} {}'.format(name, seconds)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(("\n".join(page()) + "\n").encode())

    def do_POST(self):
        with open("/root/alerts.json", "ab") as file:
            file.write(self.rfile.read(int(self.headers["Content-Length"])) + b"\n")
        self.send_response(200)
        self.end_headers()

    def log_message(self, *dummy):
        """Nobody reads it."""


http.server.ThreadingHTTPServer(("127.0.0.1", 8099), Handler).serve_forever()
