/* A stand-in for librkllmrt.so with the interface of rkllm.h 1.3.0, so that the layouts of ctypes are really used.
 *
 * A model file is text: "key=value" words. Its "model" is a sum over the tokens it was fed, so an answer shows all of
 * them. Faults are those that people reported. With -DOLD_LAYOUT the parameters are those of 1.2.3.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VOCAB 50
#define MAX 4096

typedef struct {
    int32_t domain;
    int8_t embed_flash, cpus;
    uint32_t mask;
    uint8_t n_batch;
    int8_t cross;
    uint8_t reserved[104];
} Extend;

typedef struct {
    const char *path;
    int32_t context, new_tokens, top_k, n_keep;
    float top_p, temperature, repeat, frequency, presence;
    int32_t mirostat;
    float tau, eta;
    bool skip_special;
#ifdef OLD_LAYOUT
    bool is_async;
    const char *img_start, *img_end, *img_content;
#else
    bool ignore_eos, is_async;
#endif
    Extend extend;
} Param;

typedef struct { float *values; size_t n; } Embed;
typedef struct { int32_t *ids; size_t n; } Tokens;
typedef struct {
    char *prompt;
    struct { float *e; size_t a, b; const char *s, *t, *c; size_t w, h; } image;
    struct { float *e; size_t a, b, n; const char *s, *t, *c; size_t w, h; } video;
} Multi;
typedef struct {
    const char *role;
    bool thinking;
    int type;
    union { const char *prompt; Embed embed; Tokens tokens; Multi multi; };
} Input;
typedef struct { int save; const char *path; } Cache;
typedef struct {
    int32_t top_k;
    float top_p, temperature, repeat, frequency, presence;
    int32_t mirostat;
    float tau, eta;
} Sampling;
typedef struct {
    int mode;
    void *lora;
    Cache *cache;
    Sampling *sampling;
    int keep_history;
    int32_t new_tokens;
} Infer;
typedef struct { const float *values; int width, n; } Rows;
typedef struct { float prefill_ms; int prefill; float generate_ms; int generate; float memory_mb; } Perf;
typedef struct { const char *text; int32_t id; Rows hidden, logits; Perf perf; } Result;
typedef int (*Callback)(Result *, void *, int);
typedef struct { Callback call; void *data; void *tokenizer, *tokenizer_data, *embed, *embed_data; } Callbacks;

typedef struct {
    Param param;
    Callbacks callbacks;
    char fault[64], seen[1024];
    int held[MAX], n_held, paused;
    int cached, runs;
    volatile int running, aborted;
    pthread_t thread;
    const Input *input;
    const Infer *infer;
    void *data;
    char text[64];
    float logits[MAX * VOCAB];
} Model;

static char last_seen[1024];
static int destroyed;

const char *fake_seen(void) { return last_seen; }
int fake_destroyed(void) { return destroyed; }

int fake_sizeof(const char *name) {
    if (!strcmp(name, "Param")) return sizeof(Param);
    if (!strcmp(name, "Input")) return sizeof(Input);
    if (!strcmp(name, "InferParam")) return sizeof(Infer);
    if (!strcmp(name, "Result")) return sizeof(Result);
    if (!strcmp(name, "Callbacks")) return sizeof(Callbacks);
    if (!strcmp(name, "SamplingParam")) return sizeof(Sampling);
    if (!strcmp(name, "PromptCacheParam")) return sizeof(Cache);
    return -1;
}

Param rkllm_createDefaultParam(void) {
    Param param;
    memset(&param, 0, sizeof param);
    param.context = 512, param.new_tokens = 512, param.top_k = 40, param.n_keep = -1;
    param.top_p = 0.9f, param.temperature = 0.8f, param.repeat = 1.1f;
    param.extend.cpus = 4, param.extend.mask = 0xf0, param.extend.n_batch = 1;
#ifdef OLD_LAYOUT
    param.img_start = "<img>", param.img_end = "</img>", param.img_content = "<unk>";
#endif
    return param;
}

static void word(const char *text, const char *key, char *value, size_t size) {
    const char *at = strstr(text, key);
    size_t n = at ? strcspn(at + strlen(key), " \n") : 0;
    if (n >= size) n = size - 1;
    if (at) memcpy(value, at + strlen(key), n);
    value[n] = 0;
}

int rkllm_init(void **handle, Param *param, Callbacks *callbacks) {
    char text[256] = "", fault[64], platform[16], limit[16], release[16];
    FILE *file = fopen(param->path, "r");
    if (file) text[fread(text, 1, sizeof text - 1, file)] = 0, fclose(file);
    word(text, "fault=", fault, sizeof fault);
    word(text, "platform=", platform, sizeof platform);
    word(text, "limit=", limit, sizeof limit);
    word(text, "release=", release, sizeof release);
    fprintf(stderr, "I rkllm: rkllm-runtime version: %s, rknpu driver version: 0.9.8, platform: RK3588\n",
            *release ? release : "1.3.0");
    *handle = NULL;
    if (!strcmp(fault, "lite")) {
        fprintf(stderr, "Platform error: must be either RK3588, RK3576, RV1126B, or RK3562.  \nYour platform is lite.  \n");
        return -1;
    }
    if (!strcmp(fault, "silent")) return -1;
    fprintf(stderr, "I rkllm: loading rkllm model from %s\n", param->path);
    if (strncmp(text, "RKLLM", 5)) {
        fprintf(stderr, "E RKNN: [08:48:14.826] invalid rknn llm model magic\n"
                        "E RKNN: [08:48:14.826] load model file error!\nrknn_init fail! ret=-1\n");
        *handle = calloc(1, sizeof(Model)); /* issue 156: it returns 0 all the same */
        return 0;
    }
    if (*platform && strcmp(platform, "RK3588")) {
        fprintf(stderr, "The model target_platform does not match!\nRKLLM: failed to load model\n");
        return -1;
    }
    if (!strcmp(fault, "too_old")) {
        fprintf(stderr, "Warning: The model version is too old, please use the latest toolkit to reconvert the model!\n");
        return -1;
    }
    if (!strcmp(fault, "memory")) {
        fprintf(stderr, "failed to malloc npu memory\nrkllm_init failed\n");
        return -1;
    }
    if (*limit && param->context > atoi(limit)) {
        fprintf(stderr, "E rkllm: max_context[%d] must be less than the model's max_context_limit[%s]\n",
                param->context, limit);
        return -1;
    }
    fprintf(stderr, "I rkllm: rkllm-toolkit version: 1.3.0, max_context_limit: %s, npu_core_num: 3, target_platform: RK3588\n",
            *limit ? limit : "16384");
    Model *model = calloc(1, sizeof *model);
    model->param = *param;
    model->callbacks = *callbacks;
    strcpy(model->fault, fault);
    snprintf(last_seen, sizeof last_seen,
             "path=%s context=%d new=%d top_k=%d top_p=%g temperature=%g repeat=%g skip=%d async=%d flash=%d n_batch=%d",
             param->path, param->context, param->new_tokens, param->top_k, param->top_p, param->temperature,
             param->repeat, param->skip_special, param->is_async, param->extend.embed_flash, param->extend.n_batch);
    *handle = model;
    return 0;
}

/* The next token: a sum over all tokens held, so that each counts. */
static int next(Model *model, int n) {
    unsigned sum = 17;
    for (int i = 0; i < n; i++) sum = sum * 1103515245u + model->held[i] + 12345;
    return (sum >> 16) % VOCAB;
}

static void row(Model *model, int n, float *to) {
    int best = next(model, n);
    if (!strcmp(model->fault, "lying_logits")) best = (best + 1) % VOCAB;
    if (!strcmp(model->fault, "remembering_logits")) best = (best + (model->runs > 2)) % VOCAB;
    for (int i = 0; i < VOCAB; i++) to[i] = -0.5f * ((i - best + VOCAB) % VOCAB);
    if (!strcmp(model->fault, "zero_logits")) memset(to, 0, VOCAB * sizeof *to);
}

/* Tokens 40 and 41 are the halves of one character. */
static int spell(Model *model, int id) {
    if (id == 40 || id == 41) sprintf(model->text, "%s", id == 40 ? "\xe4\xb8" : "\xad");
    else sprintf(model->text, "<%d>", id);
    return id == 40;
}

static int generate(Model *model, int limit) {
    Result result;
    memset(&result, 0, sizeof result);
    for (int i = 0; i < limit && !model->aborted; i++) {
        if (!strcmp(model->fault, "slow")) usleep(5000);
        if (!strcmp(model->fault, "error") && i == 2) {
            model->callbacks.call(&result, model->data, 3);
            return 0;
        }
        int id = next(model, model->n_held);
        int waiting = spell(model, id);
        result.text = model->text, result.id = id;
        int answer = model->callbacks.call(&result, model->data, waiting ? 1 : 0);
        if (answer == 1) {
            model->paused = 1; /* its own last token is not in the cache yet */
            if (!strcmp(model->fault, "forgetful")) model->n_held = 0;
            return 1;
        }
        model->held[model->n_held++] = id;
    }
    return 0;
}

static int work(Model *model) {
    const Input *input = model->input;
    const Infer *infer = model->infer;
    Result result;
    memset(&result, 0, sizeof result);
    if (!model->paused && !infer->keep_history) model->n_held = 0;
    if (model->paused && !strcmp(model->fault, "forgetful_late")) model->n_held = 0;
    model->paused = 0;
    int start = model->n_held, fed = 0;
    if (input->type == 1)
        for (; fed < (int)input->tokens.n; fed++) model->held[model->n_held++] = input->tokens.ids[fed];
    else
        for (; input->prompt[fed]; fed++) model->held[model->n_held++] = (unsigned char)input->prompt[fed];
    Sampling *sampling = infer->sampling;
    snprintf(last_seen, sizeof last_seen, "type=%d fed=%d mode=%d keep=%d new=%d top_k=%d repeat=%g role=%s cache=%s held=%d",
             input->type, fed, infer->mode, infer->keep_history, infer->new_tokens, sampling ? sampling->top_k : -1,
             sampling ? sampling->repeat : -1, input->role, infer->cache ? infer->cache->path : "", model->n_held);
    if (infer->cache && infer->cache->save) {
        FILE *file = fopen(infer->cache->path, "w");
        if (!file) return -1;
        fprintf(file, "%d", model->n_held), fclose(file);
    }
    int fatal = model->n_held && model->held[model->n_held - 1] == 13;
    if (fatal && !strcmp(model->fault, "aborts")) {
        fprintf(stderr, "E rkllm: task submit failed\n");
        abort();
    }
    while (fatal && !strcmp(model->fault, "hangs")) sleep(1);
    int prefill = fed - (model->cached < fed ? model->cached : 0);
    if (!strcmp(model->fault, "returns")) return -1;
    if (infer->mode == 2) {
        model->runs++;
        model->callbacks.call(&result, model->data, 0); /* one without anything comes first: issue 278 */
        int rows = strcmp(model->fault, "last_row_only") ? model->n_held - start : 1;
        for (int i = 0; i < rows; i++) row(model, model->n_held - rows + i + 1, model->logits + i * VOCAB);
        result.logits.values = model->logits, result.logits.width = VOCAB, result.logits.n = rows;
        if (strcmp(model->fault, "no_logits")) model->callbacks.call(&result, model->data, 0);
        memset(&result.logits, 0, sizeof result.logits);
        memset(model->logits, 0, sizeof model->logits); /* its memory is not the caller's to keep */
    } else if (generate(model, infer->new_tokens > 0 ? infer->new_tokens : model->param.new_tokens)) {
        return 0;
    }
    result.text = NULL, result.id = -1;
    result.perf.prefill_ms = 2.5f * prefill, result.perf.prefill = prefill;
    result.perf.generate_ms = 100.0f, result.perf.generate = model->n_held - start - fed;
    result.perf.memory_mb = 123.5f;
    if (!model->aborted) model->callbacks.call(&result, model->data, 2);
    return 0;
}

int rkllm_run(void *handle, Input *input, Infer *infer, void *data) {
    Model *model = handle;
    model->input = input, model->infer = infer, model->data = data;
    model->aborted = 0, model->running = 1;
    int status = work(model);
    model->running = 0;
    return status;
}

static void *background(void *handle) {
    work(handle);
    ((Model *)handle)->running = 0;
    return NULL;
}

int rkllm_run_async(void *handle, Input *input, Infer *infer, void *data) {
    Model *model = handle;
    if (!strcmp(model->fault, "returns")) return -1;
    model->input = input, model->infer = infer, model->data = data;
    model->aborted = 0, model->running = 1;
    int status = pthread_create(&model->thread, NULL, background, model);
    pthread_detach(model->thread);
    return status;
}

int rkllm_abort(void *handle) { return ((Model *)handle)->aborted = 1, 0; }
int rkllm_is_running(void *handle) { return ((Model *)handle)->running; }
int rkllm_get_kv_cache_size(void *handle, int *sizes) { return sizes[0] = ((Model *)handle)->n_held, 0; }

int rkllm_clear_kv_cache(void *handle, int keep_system, int *from, int *to) {
    Model *model = handle;
    (void)keep_system;
    if (from || to) return -1;
    model->n_held = model->paused = 0;
    return 0;
}

int rkllm_load_prompt_cache(void *handle, const char *path) {
    FILE *file = fopen(path, "r");
    int n = 0;
    if (!file) return -1;
    if (fscanf(file, "%d", &n) != 1) n = -1;
    fclose(file);
    ((Model *)handle)->cached = n < 0 ? 0 : n;
    return n < 0 ? -1 : 0;
}

int rkllm_release_prompt_cache(void *handle) { return ((Model *)handle)->cached = 0, 0; }
int rkllm_destroy(void *handle) { return free(handle), destroyed++, 0; }
