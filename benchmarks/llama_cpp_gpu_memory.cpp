// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later
//
// Loads a GGUF file on the GPUs that it sees and says READY; fills the cache of one sequence and says DONE. Waits for a line each time, for somebody to look
// at the GPUs' memory. Link it with llama and ggml of a build of llama.cpp with CUDA.
//
// usage: MODEL CONTEXT REQUESTS BATCH KEY_TYPE VALUE_TYPE FLASH UNIFIED WHOLE_WINDOW SPLIT
#include "llama.h"
#include "ggml-backend.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
static ggml_type type_of(const char * name) {
    for (int i = 0; i < GGML_TYPE_COUNT; i++) if (ggml_type_name((ggml_type) i) && !strcmp(ggml_type_name((ggml_type) i), name)) return (ggml_type) i;
    exit(3);
}
int main(int argc, char ** argv) {
    if (argc < 11) return 2;
    int context = atoi(argv[2]), requests = atoi(argv[3]), batch = atoi(argv[4]);
    llama_backend_init();
    llama_model_params mp = llama_model_default_params();
    mp.n_gpu_layers = 999;
    std::vector<float> split(128, 0.f);
    if (strcmp(argv[10], "-")) { char * save = strdup(argv[10]); int i = 0; for (char * t = strtok(save, ","); t; t = strtok(nullptr, ",")) split[i++] = atof(t); mp.tensor_split = split.data(); }
    llama_model * model = llama_model_load_from_file(argv[1], mp);
    if (!model) return 4;
    llama_context_params cp = llama_context_default_params();
    cp.n_ctx = context; cp.n_seq_max = requests; cp.n_ubatch = batch; cp.n_batch = batch > 2048 ? batch : 2048;
    cp.n_outputs_max = requests;
    cp.type_k = type_of(argv[5]); cp.type_v = type_of(argv[6]);
    cp.flash_attn_type = atoi(argv[7]) ? LLAMA_FLASH_ATTN_TYPE_AUTO : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    cp.kv_unified = atoi(argv[8]); cp.swa_full = atoi(argv[9]);
    llama_context * ctx = llama_init_from_model(model, cp);
    if (!ctx) return 5;
    printf("READY\n"); fflush(stdout); getchar();
    int limit = context / (cp.kv_unified ? 1 : requests) - 2, at = 0, bad = 0;
    while (at + batch <= limit) {
        llama_batch b = llama_batch_init(batch, 0, 1);
        b.n_tokens = batch;
        for (int i = 0; i < batch; i++) { b.token[i] = 1; b.pos[i] = at + i; b.n_seq_id[i] = 1; b.seq_id[i][0] = 0; b.logits[i] = i == batch - 1; }
        if (llama_decode(ctx, b)) bad++;
        llama_batch_free(b); at += batch;
    }
    for (int n = 0; n < 4 && at < limit + 1; n++, at++) {
        llama_batch b = llama_batch_init(1, 0, 1);
        b.n_tokens = 1; b.token[0] = 1; b.pos[0] = at; b.n_seq_id[0] = 1; b.seq_id[0][0] = 0; b.logits[0] = 1;
        if (llama_decode(ctx, b)) bad++;
        llama_batch_free(b);
    }
    llama_synchronize(ctx);
    printf("DONE %d %d\n", at, bad); fflush(stdout); getchar();
    return 0;
}
