__global__ void add(float* values, float more) { values[threadIdx.x] += more; }
