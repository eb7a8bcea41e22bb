/* The main job with the real model, on the emulated phone: the text's start is the CPU device's here. */
#include "cli/emulated_phone.h"

#define PROMPT "I would like to learn python, could you teach me with a simple example?"

static void the_real_model(void **state) {
    (void)state;
    const run_setting with_stand_in = {.environment = stand_in_sdk()};
    ran r = RUN_WITH(with_stand_in, "llama", "-b", CROSS, "-H", "HOST", "-s", "FAKE1", "-m", "SM8750",
                     "--temperature", "0", "--model_mode", "hybrid", "--max_seq_len", "50",
                     "--prefill_ar_len", "32", "--model", MODEL, "--decoder_model", "smollm2_135m",
                     "--use_slc_allocator", "--calib_samples", "2", "--prompt", PROMPT, "--artifact",
                     in_folder("job"), "--qnn_lib", HOST_QNN);
    check_ran(&r, 0, "device: htp");
    ran here =
        RUN("generate", in_folder("job"), "--prompt", PROMPT, "--temperature", "0", "--max_seq_len", "50");
    check_ran(&here, 0, NULL);
    assert_string_equal(r.out, here.out);
    assert_true(here.out_size > 4);
    ran_free(&r), ran_free(&here);
}

static int set_up(void **state) {
    if (make_folder(state) != 0) return -1;
    emulated_phone_make();
    return fresh_phone(state);
}

int main(void) {
    if (!can_run() || !is_there(MODEL)) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_real_model)};
    return cmocka_run_group_tests_name("emulated phone, real model", tests, set_up, remove_folder);
}
