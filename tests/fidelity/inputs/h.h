#pragma once
#define ADD(a, b) ((a) + (b))
