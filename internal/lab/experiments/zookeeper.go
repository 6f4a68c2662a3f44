package experiments

import "seckill/internal/lab"

func herds() lab.Set { return nil }
