#include "draw.h"

#define LN2 0x1.62e42fefa39efp-1
#define LN2_HIGH 0x1.62e42feep-1 /* its product with an integer below 2^20 is exact */
#define LN2_LOW 0x1.a39ef35793c76p-33
#define SQRT_HALF 0x1.6a09e667f3bcdp-1
#define LOG_TERMS 11
#define EXP_TERMS 16
#define BIAS 1022
#define FRACTION 0x000fffffffffffffULL

/* Returns m in [0.5, 1) and e with x = m * 2^e, like frexp(3). */
static double split(double x, int *exponent) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    *exponent = (int)(bits >> 52 & 0x7ff) - BIAS;
    bits = (bits & FRACTION) | (uint64_t)BIAS << 52;
    memcpy(&x, &bits, sizeof x);
    return x;
}

double draw_log(double x) {
    int exponent;
    double m = split(x, &exponent);
    if (m < SQRT_HALF) {
        m = m * 2;
        --exponent;
    }
    /* ln m = 2 artanh s = 2 s (1 + s^2/3 + s^4/5 + ...), and |s| < 0.1716 */
    const double s = (m - 1) / (m + 1);
    const double square = s * s;
    double sum = 0;
    for (int term = LOG_TERMS; term >= 0; --term) {
        sum = sum * square + 1.0 / (2 * term + 1);
    }
    return (double)exponent * LN2 + 2 * s * sum;
}

double draw_exp(double x) {
    const int k = (int)(x / LN2 + 0.5);
    const double rest = (x - k * LN2_HIGH) - k * LN2_LOW;
    double sum = 1;
    for (int term = EXP_TERMS; term >= 1; --term) {
        sum = sum * rest / term + 1;
    }
    const uint64_t bits = (uint64_t)(k + BIAS + 1) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

int64_t distribution_draw(const struct distribution *distribution, uint64_t index) {
    double value = distribution->scale;
    if (distribution->kind != DISTRIBUTION_CONSTANT) {
        const double log = draw_log(draw_unit(draw(distribution->key, index)));
        value = distribution->kind == DISTRIBUTION_EXPONENTIAL
                    ? distribution->scale * -log
                    : distribution->scale * draw_exp(-log / distribution->shape);
    }
    return (int64_t)((value < DRAW_LARGEST ? value : DRAW_LARGEST) + 0.5);
}
