/* Tests of the report of a run. */
#include <string.h>

#include "common/check.h"
#include "report.h"

static void test_end_and_queue_of_the_device_are_both_reported(void) {
    static struct timebase time;
    static struct transmission transmission = {.time = &time};
    static const struct model model;
    static const char *const ends[] = {"complete", "stop", "clock_step", "link_down"};
    for (unsigned end = SENT_ALL; end <= SENDING_LINK_DOWN; ++end) {
        for (unsigned drained = 0; drained < 2; ++drained) {
            char text[1000] = "", expected[100];
            FILE *to = fmemopen(text, sizeof text - 1, "w");
            CHECK(to);
            transmission.end = (enum transmission_end)end;
            transmission.drained = drained;
            report_print(to, &model, 0, &transmission);
            CHECK(fclose(to) == 0);
            snprintf(expected, sizeof expected, "\"ended\": \"%s\", \"drained\": %s}", ends[end - SENT_ALL],
                     drained ? "true" : "false");
            CHECK(strstr(text, expected));
        }
    }
}

int main(void) {
    test_end_and_queue_of_the_device_are_both_reported();
    return 0;
}
