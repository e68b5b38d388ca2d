"""What a run of the benchmark measures."""

# As `vllm bench serve --save-result` of 0.32.0 writes them, what the report does not read left out.
FIGURES = {
    "num_prompts": 16,
    "completed": 16,
    "max_concurrency": 4,
    "total_input_tokens": 1024,
    "total_output_tokens": 512,
    "request_throughput": 2.0,
    "output_throughput": 64.0,
    "median_ttft_ms": 40.0,
    "p99_ttft_ms": 90.0,
    "median_itl_ms": 10.0,
    "p99_itl_ms": 30.0,
}
