/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests that run while a module loads, each a function that returns 0 when all is
 * as it should be. Of more than one module.
 */
#ifndef MLX5_ULP_EXPECT_H
#define MLX5_ULP_EXPECT_H

#include <linux/errno.h>
#include <linux/printk.h>
#include <linux/string.h>

/* Says why a test failed, and makes it fail. */
#define FAIL(fmt, ...) ({ pr_info("failed: " fmt "\n", ##__VA_ARGS__); -EPROTO; })

/* Fails unless two numbers are equal. */
#define EXPECT(is, should) ({						\
	long long __is = (is), __should = (should);			\
	__is == __should ? 0 :						\
		FAIL("%s is %lld, should be %lld (%s:%d)", #is, __is,	\
		     __should, __func__, __LINE__);			\
})

struct named_test {
	const char *name;
	int (*run)(void);
};

/* Runs the one of @count @tests that is called @name, and says how it ended. */
static inline int run_named_test(const struct named_test *tests, int count, const char *name)
{
	int i, err;

	for (i = 0; i < count; i++) {
		if (strcmp(name, tests[i].name))
			continue;
		err = tests[i].run();
		pr_info("%s: %s (%d)\n", name, err ? "not ok" : "ok", err);
		return err;
	}
	pr_info("there is no test '%s'\n", name);
	return -EINVAL;
}

#endif /* MLX5_ULP_EXPECT_H */
