// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "base/setting.h"

#include <stdbool.h>

static bool keys;

void setting__use_keys(void)
{
	keys = true;
}

const char *setting_name(const char *option, const char *key)
{
	return keys ? key : option;
}
