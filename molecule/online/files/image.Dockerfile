# The lab's vLLM with what tells that an image has code for a V100. No process loads these two files.
ARG BASE
FROM ${BASE}
COPY volta.o /opt/vllm/lib/python3.11/site-packages/vllm/_C_cuda.abi3.so
COPY volta.o /opt/vllm/lib/python3.11/site-packages/torch/lib/libtorch_cuda_lab.so
