/* Failures that a test wants of the functions of a library. */
#include <stdio.h>
#include <string.h>

enum { ALL_GPUS = -1, MOST_FAILURES = 32 };
struct failure { char function[64]; int gpu, code; };
static struct failure failures[MOST_FAILURES];
static int failure_count;

void fake_fail(const char *function, int gpu, int code) {
    struct failure *failure = &failures[failure_count++];
    snprintf(failure->function, sizeof failure->function, "%s", function);
    failure->gpu = gpu;
    failure->code = code;
}
void fake_mend(void) { failure_count = 0; }

/* The code that the test wants for this function and GPU; "*" is every function of a GPU. */
static int wanted_code(const char *function, int gpu) {
    for (int i = 0; i < failure_count; i++) {
        const struct failure *failure = &failures[i];
        int same_gpu = failure->gpu == ALL_GPUS || failure->gpu == gpu;
        int same_function = !strcmp(failure->function, function)
            || (!strcmp(failure->function, "*") && gpu != ALL_GPUS);
        if (same_gpu && same_function) return failure->code;
    }
    return 0;
}
