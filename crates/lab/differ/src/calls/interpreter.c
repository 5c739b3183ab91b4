
/* Programs come on standard input: a step a line, then `.`; results go out in the same way, and `.` ends them. */
int main(int argc, char **argv)
{
    static char lines[64][200];
    static struct step steps[64];
    int count = 0;
    char line[200];
    begin(argc, argv);
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == '.') {
            run_program(steps, count);
            printf(".\n");
            fflush(stdout);
            count = 0;
            continue;
        }
        if (count == 64)
            return 3;
        strcpy(lines[count], line);
        char *rest, *word = strtok_r(lines[count], " \n", &rest);
        memset(&steps[count], 0, sizeof steps[count]);
        steps[count].name = word;
        for (int i = 0; i < ARGS && (word = strtok_r(NULL, " \n", &rest)); i++)
            steps[count].a[i] = strtol(word, NULL, 10);
        count++;
    }
    RAW(exit_group, 0);
}
