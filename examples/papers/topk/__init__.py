"""The parts of joint_topk."""
