// Files of numbers for jobs that learn lines.
//
//   WriteNpy(cluster->data_root() + "/x.npy", Numbers(6 * 3, 0.5f), 3);
#ifndef ADJOIN_TESTS_PREDICT_NPY_NUMBERS_H_
#define ADJOIN_TESTS_PREDICT_NPY_NUMBERS_H_

#include <string>
#include <vector>

namespace adjoin {

// Writes float32 values as an NPY file of version 1, in rows of so many.
void WriteNpy(const std::string& path, const std::vector<float>& values, int columns);

// Whole numbers from -2 to 2, times `factor`.
std::vector<float> Numbers(int count, float factor);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_PREDICT_NPY_NUMBERS_H_
