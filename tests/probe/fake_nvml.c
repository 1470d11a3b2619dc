/* A libnvidia-ml.so.1 for machines without a GPU: two GPUs that a test can make fail.
 *
 * The fake_ functions are the test's controls; the others have the signatures of nvml.h. Built with
 * -DOLD_DRIVER it lacks the functions that came late, with -DNO_POWER the one for power.
 * FAKE_NVML_LOG names a file that gets a line for each session opened and closed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNINITIALIZED = 1, INVALID_ARGUMENT = 2, ALL_GPUS = -1, MOST_FAILURES = 32 };

struct failure { char function[64]; int gpu; int code; };

static struct failure failures[MOST_FAILURES];
static int failure_count, sessions, calls, gpu_count = 2;
static unsigned long long clock_reasons = 1;
static int is_held;
static pthread_mutex_t hold_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;

void fake_fail(const char *function, int gpu, int code) {
    struct failure *failure = &failures[failure_count++];
    snprintf(failure->function, sizeof failure->function, "%s", function);
    failure->gpu = gpu;
    failure->code = code;
}
void fake_mend(void) { failure_count = 0; }
void fake_gpus(int count) { gpu_count = count; }
void fake_clock_reasons(unsigned long long reasons) { clock_reasons = reasons; }
int fake_sessions(void) { return sessions; }
int fake_calls(void) { return calls; }
void fake_hold(int hold) {
    pthread_mutex_lock(&hold_lock);
    is_held = hold;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&hold_lock);
}

static void note(const char *line) {
    const char *path = getenv("FAKE_NVML_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (log) { fprintf(log, "%s\n", line); fclose(log); }
}

/* The code that the test wants for this function and GPU; "*" is every function of a GPU. */
static int answer(const char *function, int gpu) {
    pthread_mutex_lock(&hold_lock);
    calls++;
    while (is_held) pthread_cond_wait(&released, &hold_lock);
    pthread_mutex_unlock(&hold_lock);
    for (int i = 0; i < failure_count; i++) {
        const struct failure *failure = &failures[i];
        int same_gpu = failure->gpu == ALL_GPUS || failure->gpu == gpu;
        int same_function = !strcmp(failure->function, function)
            || (!strcmp(failure->function, "*") && gpu != ALL_GPUS);
        if (same_gpu && same_function) return failure->code;
    }
    return 0;
}
static int number(void *handle) { return (int)(size_t)handle - 1; }

#define ASK(gpu) do { \
        if (!sessions) return UNINITIALIZED; \
        int code = answer(__func__, gpu); \
        if (code) return code; \
    } while (0)

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    int code = answer(__func__, ALL_GPUS);
    if (!code) { sessions++; note("init"); }
    return code;
}
int nvmlShutdown(void) { ASK(ALL_GPUS); sessions--; note("shutdown"); return 0; }
const char *nvmlErrorString(int code) { return code == 777 ? "Coffee spilt" : "Some error"; }

int nvmlDeviceGetCount_v2(unsigned *count) { ASK(ALL_GPUS); *count = gpu_count; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    ASK((int)index);
    if ((int)index >= gpu_count) return INVALID_ARGUMENT;
    *handle = (void *)(size_t)(index + 1);
    return 0;
}
int nvmlDeviceGetName(void *handle, char *name, unsigned length) {
    ASK(number(handle));
    snprintf(name, length, number(handle) ? "NVIDIA Fake 2" : "NVIDIA Fake 1");
    return 0;
}

struct utilisation { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(void *handle, struct utilisation *rates) {
    ASK(number(handle));
    rates->gpu = 37 + number(handle);
    rates->memory = 12;
    return 0;
}

struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) {
    ASK(number(handle));
    memory->total = 80ULL << 30;
    memory->used = 6ULL << 30;
    memory->free = 74ULL << 30;
    return 0;
}

int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *celsius) {
    ASK(number(handle));
    if (sensor != 0) return INVALID_ARGUMENT;
    *celsius = 61;
    return 0;
}
#ifndef NO_POWER
int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
    ASK(number(handle));
    *milliwatts = 312500;
    return 0;
}
#endif
int nvmlDeviceGetPowerManagementLimit(void *handle, unsigned *milliwatts) {
    ASK(number(handle));
    *milliwatts = 700000;
    return 0;
}
int nvmlDeviceGetClockInfo(void *handle, unsigned type, unsigned *megahertz) {
    ASK(number(handle));
    *megahertz = type == 1 ? 1755 : 1593; /* 1 is the SM clock, 2 memory */
    return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
    ASK(number(handle));
    *reasons = clock_reasons;
    return 0;
}

#ifndef OLD_DRIVER
/* Version 2 knows what the driver reserves for itself, which version 1 counts as used. */
struct memory_2 { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_2 *memory) {
    ASK(number(handle));
    if (memory->version != (sizeof *memory | 2u << 24)) return 25;
    memory->total = 80ULL << 30;
    memory->reserved = 1ULL << 30;
    memory->used = 5ULL << 30;
    memory->free = 74ULL << 30;
    return 0;
}
struct temperature { unsigned version, sensor; int celsius; };
int nvmlDeviceGetTemperatureV(void *handle, struct temperature *temperature) {
    ASK(number(handle));
    if (temperature->sensor != 0) return INVALID_ARGUMENT;
    temperature->celsius = 62;
    return 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned *milliwatts) {
    ASK(number(handle));
    *milliwatts = 650000;
    return 0;
}
int nvmlDeviceGetCurrentClocksEventReasons(void *handle, unsigned long long *reasons) {
    ASK(number(handle));
    *reasons = clock_reasons;
    return 0;
}
#endif
