/* A libnvidia-ml.so.1 for machines without a GPU: two GPUs that a test can make fail.
 *
 * The energy counter moves every FAKE_NVML_STEP ms (100 without it) of a clock that the test sets, or
 * else of the machine's own, at FAKE_NVML_WATTS (250 without it) for each GPU. With fake_mig the
 * second GPU is divided in two slices.
 *
 * The fake_ functions are the test's controls; the others have the signatures of nvml.h. Built with
 * -DOLD_DRIVER it lacks the functions that came late, with -DNO_POWER the one for power.
 * FAKE_NVML_LOG names a file that gets a line for each session opened and closed. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "fake_failures.h"

enum { UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7 };

static int sessions, calls, gpu_count = 2;
static unsigned long long clock_reasons = 1;
static int is_held, is_divided;
static double clock_seconds = -1;
static unsigned long long link_kilobytes, link_microseconds = 1000000;
static int fan_count = 2;
static pthread_mutex_t hold_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;

void fake_mig(int divided) { is_divided = divided; }
void fake_clock(double seconds) { clock_seconds = seconds; }
/* So much more was sent over all links, and twice of it received, so much later. */
void fake_links(int kilobytes, int milliseconds) {
    link_kilobytes += kilobytes;
    link_microseconds += milliseconds * 1000ULL;
}
void fake_fans(int count) { fan_count = count; }
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

static int answer(const char *function, int gpu) {
    pthread_mutex_lock(&hold_lock);
    calls++;
    while (is_held) pthread_cond_wait(&released, &hold_lock);
    pthread_mutex_unlock(&hold_lock);
    int code = wanted_code(function, gpu);
    if (code) return code;
    return 0;
}
/* Handles are the number of the GPU and one more; those of slices have 100 on top. */
static int number(void *handle) { return ((int)(size_t)handle - 1) % 100; }
static int slice(void *handle) { return ((int)(size_t)handle - 1) / 100; }
__attribute__((unused)) static double setting(const char *name, double otherwise) {
    return getenv(name) ? atof(getenv(name)) : otherwise;
}

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
    const char *of = number(handle) ? "NVIDIA Fake 2" : "NVIDIA Fake 1";
    if (slice(handle)) snprintf(name, length, "%s MIG %dg.10gb", of, slice(handle));
    else snprintf(name, length, "%s", of);
    return 0;
}
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length) {
    ASK(number(handle));
    if (slice(handle)) snprintf(uuid, length, "MIG-%d0000000-aaaa", slice(handle));
    else snprintf(uuid, length, "GPU-%d1111111-bbbb", number(handle));
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

int nvmlDeviceGetCurrPcieLinkGeneration(void *handle, unsigned *generation) {
    ASK(number(handle));
    *generation = 5;
    return 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(void *handle, unsigned *lanes) {
    ASK(number(handle));
    *lanes = 16;
    return 0;
}
int nvmlDeviceGetPcieThroughput(void *handle, unsigned direction, unsigned *kilobytes) {
    ASK(number(handle));
    *kilobytes = direction == 0 ? 3000 : 7000; /* 0 is sent by the GPU, 1 received */
    return 0;
}

int nvmlDeviceGetFanSpeed(void *handle, unsigned *percent) {
    ASK(number(handle));
    *percent = 35;
    return 0;
}
int nvmlDeviceGetTotalEccErrors(void *handle, int kind, int since, unsigned long long *count) {
    ASK(number(handle));
    if (number(handle) && since == 1) return NOT_SUPPORTED; /* the second keeps none over its life */
    *count = 3 + kind * 10 + since * 100; /* kind 1 is uncorrected, since 1 the life of the GPU */
    return 0;
}

#ifndef OLD_DRIVER
int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *millijoules) {
    ASK(number(handle));
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = clock_seconds >= 0 ? clock_seconds : now.tv_sec + now.tv_nsec / 1e9;
    double step = setting("FAKE_NVML_STEP", 100) / 1e3;
    long long steps = (long long)(seconds / step + 1e-9);
    *millijoules = (unsigned long long)(steps * step * setting("FAKE_NVML_WATTS", 250) * 1e3 + 0.5);
    return 0;
}
struct field {
    unsigned id, scope;
    long long timestamp, latency;
    int type, code;
    union { double d; unsigned u; unsigned long long ull; } value;
};
/* Four links on the first GPU, of which three are active; the second has none. 90 is the speed of
 * one in MB/s, 91 their number, 138 and 139 the counters of KiB with the scope of all links; 38, 52
 * and 59 are errors. The types are double, unsigned, unsigned long, unsigned long long in this order. */
static int link_field(int gpu, struct field *field) {
    unsigned id = field->id;
    if (id != 90 && id != 91 && id != 138 && id != 139 && id != 38 && id != 52 && id != 59) return 0;
    field->code = gpu ? NOT_SUPPORTED : 0;
    if ((id == 138 || id == 139) && field->scope != 0xFFFFFFFFu) field->code = INVALID_ARGUMENT;
    field->type = id == 90 || id == 91 ? 1 : 3;
    field->timestamp = (long long)link_microseconds;
    memset(&field->value, 0xEE, sizeof field->value); /* what is not of the type is not to be read */
    switch (id) {
        case 90: field->value.u = 26562; break;
        case 91: field->value.u = 4; break;
        case 138: field->value.ull = link_kilobytes; break;
        case 139: field->value.ull = 2 * link_kilobytes; break;
        case 38: field->value.ull = 5; break;
        case 52: field->value.ull = 7; break;
        default: field->code = NOT_SUPPORTED; /* recoveries */
    }
    return 1;
}
int nvmlDeviceGetNvLinkState(void *handle, unsigned link, unsigned *active) {
    ASK(number(handle));
    if (number(handle)) return NOT_SUPPORTED;
    *active = link != 2;
    return 0;
}
int nvmlDeviceGetNumFans(void *handle, unsigned *fans) {
    ASK(number(handle));
    *fans = fan_count;
    return 0;
}
int nvmlDeviceGetFanSpeed_v2(void *handle, unsigned fan, unsigned *percent) {
    ASK(number(handle));
    if ((int)fan >= fan_count) return INVALID_ARGUMENT;
    *percent = 30 + 12 * fan;
    return 0;
}
struct fan_rpm { unsigned version, fan, speed; };
int nvmlDeviceGetFanSpeedRPM(void *handle, struct fan_rpm *fan) {
    ASK(number(handle));
    if (fan->version != (sizeof *fan | 1u << 24)) return 25;
    fan->speed = 1450;
    return 0;
}
int nvmlDeviceGetFieldValues(void *handle, int count, struct field *fields) {
    ASK(number(handle));
    for (int i = 0; i < count; i++) {
        if (link_field(number(handle), &fields[i])) continue;
        /* 185 is the mean power, 186 that of the moment; scope 0 the GPU, 1 the module, 2 memory. */
        int known = (fields[i].id == 185 && fields[i].scope == 0) || fields[i].id == 186;
        fields[i].code = !known || (fields[i].scope == 1 && number(handle)) ? NOT_SUPPORTED : 0;
        fields[i].value.u = (fields[i].id == 185 ? 300000 : 310000) - 100000 * (fields[i].scope == 2)
            + 200000 * (fields[i].scope == 1);
    }
    return 0;
}
struct process { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; };
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *processes) {
    ASK(number(handle));
    if (number(handle)) { *count = 0; return 0; } /* no one computes on the second */
    if (*count < 2) { *count = 2; return TOO_SMALL; }
    *count = 2;
    processes[0].pid = 4321; processes[0].memory = 1ULL << 30;
    processes[1].pid = 1234; processes[1].memory = 3ULL << 30;
    return 0;
}
struct used { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; };
int nvmlDeviceGetProcessUtilization(void *handle, struct used *samples, unsigned *count,
                                    unsigned long long since) {
    (void)since;
    ASK(number(handle));
    if (number(handle)) return NOT_FOUND;
    if (*count < 2) { *count = 2; return TOO_SMALL; }
    *count = 2;
    samples[0] = (struct used){1234, 1000000, 90, 1, 0, 0};
    samples[1] = (struct used){1234, 1500000, 35, 1, 0, 0}; /* the newer one */
    return 0;
}
int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    ASK(number(handle));
    if (!number(handle)) return NOT_SUPPORTED;
    *current = *pending = is_divided;
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
    ASK(number(handle));
    *count = 7;
    return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **slice_handle) {
    ASK(number(handle));
    if (index != 0 && index != 2) return NOT_FOUND;
    *slice_handle = (void *)((size_t)handle + 100 * (index ? 2 : 1));
    return 0;
}
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
