/* The grid of traffic as far as it goes without Qualcomm's library: what a grid is refused for, the job list,
 * the Slurm script. */
#include "cli/run_program.h"
#include "cli/tiny_gguf.h"

static char gguf[128];

static int set_up(void **state) {
    bytes b = {0};
    if (make_folder(state) != 0) return -1;
    tiny_gguf_build(&b);
    snprintf(gguf, sizeof gguf, "%s", write_file("tiny model's.gguf", b.data, b.size));
    free(b.data);
    return 0;
}

static char *read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    size_t size;
    if (f == NULL) fail_msg("%s: %s", path, strerror(errno));
    return run_read_back(f, &size);
}

#define TRAFFIC "traffic", "--model", gguf, "--cache", in_folder("cache"), "--max_seq_len", "64"

static void wrong_grids(void **state) {
    (void)state;
    REFUSED(2, "--vtcm_mb: `x`, wanted whole numbers from 1 to 64", TRAFFIC, "--vtcm_mb", "2,x");
    REFUSED(2, "has an empty value", TRAFFIC, "--vtcm_mb", "2,,4");
    REFUSED(2, "stands there twice", TRAFFIC, "--quant", "8a8w,8a8w");
    REFUSED(2, "no recipe `9a9w`", TRAFFIC, "--max_seq_len", "64", "--quant", "8a8w,9a9w");
    REFUSED(2, "byte 1 is a control character or not UTF-8", TRAFFIC, "--quant", "8a8w,a\xff.json");
    REFUSED(2, "byte 1 is a control character or not UTF-8", TRAFFIC, "--quant", "a\n.json");
    REFUSED(2, "unknown SoC \"SM1\"", TRAFFIC, "--max_seq_len", "64", "-m", "SM8750,SM1");
    REFUSED(2, "--slc: `maybe`", TRAFFIC, "--slc", "off,maybe");
    REFUSED(2, "--attention: `cut`", TRAFFIC, "--attention", "auto,cut");
    REFUSED(2, "--logits: `topk:0`, wanted some of: all, topk:N with N from 1 to", TRAFFIC, "--logits",
            "all,topk:0");
    REFUSED(2, "--layers: `99`", TRAFFIC, "--layers", "1,99");
    REFUSED(2, "--opt_level: `4`, wanted whole numbers from 1 to 3", TRAFFIC, "--opt_level", "4");
    REFUSED(2, "wanted whole numbers from 2 to 256", TRAFFIC, "--max_seq_len",
            "64,257"); /* trained for 256 */
    REFUSED(2, "the grid is empty", TRAFFIC, "--vtcm_mb", "16", "--max_seq_len", "64");
    REFUSED(2, "exclude each other", TRAFFIC, "--only", "kv_forward", "--jobs", in_folder("jobs"));
    REFUSED(2, "--only: `window` is no graph", TRAFFIC, "--only", "window", "--max_seq_len", "64");
    REFUSED(2, "--only kv_forward: the grid has more than one", TRAFFIC, "--only", "kv_forward",
            "--max_seq_len", "64,128");
    REFUSED(2, "--json and --tsv", TRAFFIC, "--json", "--tsv");
    REFUSED(1, "no/such", TRAFFIC, "--merge", "/no/such", "--max_seq_len", "64");
}

/* By hand: contexts 64 and 128 with AR 16 and 64 leave 3 prefill graphs (64 of 64 has no cache) and 2 decode
 * graphs, each at 2 sizes of VTCM, off and on. */
static void a_job_a_line(void **state) {
    (void)state;
    char jobs[200], slurm[200];
    snprintf(jobs, sizeof jobs, "%s", in_folder("jobs"));
    snprintf(slurm, sizeof slurm, "%s", in_folder("array.sh"));
    ran r = RUN(TRAFFIC, "--jobs", jobs, "--slurm", slurm, "--max_seq_len", "64,128", "--prefill_ar_len",
                "16,64", "--vtcm_mb", "2,8", "--slc", "off,on", "--attention", "auto,grouped");
    check_ran(&r, 0, "20 jobs");
    assert_int_equal(r.out_size, 0);
    ran_free(&r);
    char *text = read_text(jobs), *script = read_text(slurm);
    assert_int_equal(count_lines(text), 20);
    assert_non_null(strstr(text, " --only prefill_forward "));
    assert_non_null(strstr(text, "tiny model'\\''s.gguf'")); /* quoted for the shell */
    assert_non_null(strstr(script, "#SBATCH --array=0-19\n"));
    char command[512];
    snprintf(command, sizeof command, "bash -n '%s' && bash -n '%s'", slurm, jobs);
    assert_int_equal(system(command), 0);
    /* The body of a task: what it starts is the command of the list's line. */
    snprintf(command, sizeof command,
             "PS4= SLURM_ARRAY_TASK_ID=20 bash '%s' 2>/dev/null; test $? = 2 && "
             "! bash '%s' 2>/dev/null",
             slurm, slurm);
    assert_int_equal(system(command), 0);
    free(text), free(script);
}

static void the_cache_is_where_xdg_says(void **state) {
    (void)state;
    char setting[200], jobs[200], wanted[300];
    snprintf(setting, sizeof setting, "XDG_CACHE_HOME=%s", in_folder("xdg"));
    snprintf(jobs, sizeof jobs, "%s", in_folder("xdg_jobs"));
    ran r = RUN_WITH(SETTING(.environment = setting), "traffic", "--model", gguf, "--jobs", jobs,
                     "--max_seq_len", "64");
    snprintf(wanted, sizeof wanted, "results in %s/spillway", in_folder("xdg"));
    check_ran(&r, 0, wanted);
    ran_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_grids),
        cmocka_unit_test(a_job_a_line),
        cmocka_unit_test(the_cache_is_where_xdg_says),
    };
    return cmocka_run_group_tests(tests, set_up, remove_folder);
}
