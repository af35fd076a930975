/* Calls a kernel that Tilewright compiled; nothing of Tilewright or Python is needed to run it. */
#include "smooth.h"

#include <stdio.h>

#define N 8

static void show(const char *name, const float *values) {
    printf("%s:", name);
    for (int i = 0; i < N; ++i) printf(" %.2f", values[i]);
    printf("\n");
}

int main(void) {
    const float in[N] = {0, 0, 9, 0, 0, 3, 3, 3};
    float out[N];

    smooth_set_num_threads(2);
    int32_t status = smooth_main(in, N, out);
    if (status != 0) {
        fprintf(stderr, "smooth_main failed with status %d, see smooth.h\n", (int)status);
        return 1;
    }
    show("in ", in);
    show("out", out);

    printf("an empty signal: status %d\n", (int)smooth_main(in, 0, out));
    return 0;
}
