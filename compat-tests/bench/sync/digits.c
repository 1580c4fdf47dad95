/* Steps of SGD of a small network, and its loss: 64 inputs, 32 units (ReLU), 10 classes. What is
 * not here of it is in digits.py. All arrays are row after row; weights are those of the first
 * layer (64 x 32), its bias, those of the second (32 x 10), its bias.
 *
 * Inside, rows of the second layer have 16 columns, as many as fit whole vectors; those that are
 * too many are 0. Half of all inputs are 0 too; to ask would take longer than to add nothing. */
#include <math.h>
#include <string.h>

enum {
  INPUTS = 64,
  UNITS = 32,
  CLASSES = 10,
  WIDE = 16,
  FIRST = INPUTS * UNITS,
  SECOND = FIRST + UNITS,
  LAST = SECOND + UNITS * CLASSES,
  WEIGHTS = LAST + CLASSES
};

/* The second layer, with rows of WIDE; the last row is the bias. */
typedef float Second[UNITS + 1][WIDE];

static void widen(const float *weights, Second out) {
  memset(out, 0, sizeof(Second));
  for (int j = 0; j <= UNITS; j++)
    memcpy(out[j], weights + SECOND + j * CLASSES, sizeof(float) * CLASSES);
}

/* The units' outputs for one image, and the probability of each class. */
static void forward(const float *restrict weights, Second out, const float *restrict image,
                    float *restrict hidden, float *restrict chance) {
  float sums[UNITS], scores[WIDE], most, sum = 0;
  memcpy(sums, weights + FIRST, sizeof sums);
  for (int i = 0; i < INPUTS; i++)
    for (int j = 0; j < UNITS; j++) sums[j] += image[i] * weights[i * UNITS + j];
  for (int j = 0; j < UNITS; j++) hidden[j] = sums[j] > 0 ? sums[j] : 0;
  memcpy(scores, out[UNITS], sizeof scores);
  for (int j = 0; j < UNITS; j++)
    for (int c = 0; c < WIDE; c++) scores[c] += hidden[j] * out[j][c];
  most = scores[0];
  for (int c = 1; c < CLASSES; c++) most = scores[c] > most ? scores[c] : most;
  for (int c = 0; c < WIDE; c++) scores[c] = expf(scores[c] - most);
  for (int c = 0; c < CLASSES; c++) sum += scores[c];
  for (int c = 0; c < WIDE; c++) chance[c] = c < CLASSES ? scores[c] / sum : 0;
}

/* Adds what one image has to say to the gradient, of which that of the second layer is apart; its
 * weight is `share`. */
static void backward(const float *restrict weights, Second out, const float *restrict image,
                     int label, float share, float *restrict gradient, Second of_out) {
  float hidden[UNITS], error[WIDE], back[UNITS];
  forward(weights, out, image, hidden, error);
  error[label] -= 1;
  for (int c = 0; c < WIDE; c++) {
    error[c] *= share;
    of_out[UNITS][c] += error[c];
  }
  for (int j = 0; j < UNITS; j++) {
    float sum = 0;
    for (int c = 0; c < WIDE; c++) {
      of_out[j][c] += hidden[j] * error[c];
      sum += out[j][c] * error[c];
    }
    back[j] = hidden[j] > 0 ? sum : 0;
    gradient[FIRST + j] += back[j];
  }
  for (int i = 0; i < INPUTS; i++)
    for (int j = 0; j < UNITS; j++) gradient[i * UNITS + j] += image[i] * back[j];
}

int digits_weights(void) { return WEIGHTS; }

/* The mean gradient of `batch` images, whose numbers are in `which`. */
void digits_gradient(const float *weights, const int *which, int batch, const float *images,
                     const int *labels, float *gradient) {
  Second out, of_out;
  widen(weights, out);
  memset(of_out, 0, sizeof of_out);
  memset(gradient, 0, sizeof(float) * WEIGHTS);
  for (int n = 0; n < batch; n++)
    backward(weights, out, images + (long)which[n] * INPUTS, labels[which[n]], 1.0f / (float)batch,
             gradient, of_out);
  for (int j = 0; j <= UNITS; j++)
    memcpy(gradient + SECOND + j * CLASSES, of_out[j], sizeof(float) * CLASSES);
}

/* `steps` steps of SGD; each takes the next `batch` numbers of `which`. `speed` is what the
 * momentum has become; it is not used if that is 0. */
void digits_steps(float *restrict weights, float *restrict speed, int steps, const int *which,
                  int batch, const float *images, const int *labels, float rate, float momentum) {
  float gradient[WEIGHTS];
  for (int s = 0; s < steps; s++) {
    digits_gradient(weights, which + (long)s * batch, batch, images, labels, gradient);
    if (momentum == 0) {
      for (int k = 0; k < WEIGHTS; k++) weights[k] -= rate * gradient[k];
    } else {
      for (int k = 0; k < WEIGHTS; k++) {
        speed[k] = momentum * speed[k] - rate * gradient[k];
        weights[k] += speed[k];
      }
    }
  }
}

/* The mean loss over `count` images, and how many of them are told rightly. */
float digits_loss(const float *weights, const float *images, const int *labels, int count,
                  int *right) {
  Second out;
  float hidden[UNITS], chance[WIDE];
  double sum = 0;
  *right = 0;
  widen(weights, out);
  for (int n = 0; n < count; n++) {
    forward(weights, out, images + (long)n * INPUTS, hidden, chance);
    sum -= logf(chance[labels[n]] + 1e-12f);
    int best = 0;
    for (int c = 1; c < CLASSES; c++) best = chance[c] > chance[best] ? c : best;
    *right += best == labels[n];
  }
  return (float)(sum / count);
}
