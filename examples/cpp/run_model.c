/* Runs a program that rushlight.export.save wrote, and one operation by name, from C.
 *
 *   cc run_model.c $(pkg-config --cflags --libs rushlight) -o run_model
 *   ./run_model model.rl        (of one input of shape (2, 3) and one output)
 */
#include <rushlight/c_api.h>
#include <stdio.h>
#include <stdlib.h>

static void must(int status) {
  if (status == 0) return;
  fprintf(stderr, "run_model: %s\n", rl_last_error());
  exit(1);
}

int main(int count, char** arguments) {
  const float elements[] = {1, 2, 3, 4, 5, 6};
  const int64_t sizes[] = {2, 3};
  rl_tensor *x, *y, *sum;
  rl_model* model;
  rl_value argument = {RL_TENSOR, 0, {0}};
  int64_t results;
  double value;

  if (count != 2) {
    fprintf(stderr, "usage: run_model MODEL\n");
    return 2;
  }
  must(rl_tensor_new(elements, RL_FLOAT32, sizes, 2, &x));
  must(rl_model_load(arguments[1], &model));
  must(rl_model_run(model, &x, 1, &y, 1, &results));
  argument.as.tensor = y;
  must(rl_call("sum", &argument, 1, NULL, &sum, 1, &results));
  must(rl_tensor_item(sum, &value));
  printf("%.9g\n", value);
  rl_tensor_free(sum);
  rl_tensor_free(y);
  rl_tensor_free(x);
  rl_model_free(model);
  return 0;
}
